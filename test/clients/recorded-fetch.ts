/** One HTTP request of a client and the status of its response. */
export interface SentRequest {
  readonly method: string;
  readonly url: URL;
  readonly headers: Headers;
  /** The parsed JSON body; undefined without a body. */
  readonly body: any;
  readonly status: number;
}

/** A `fetch` for a client that sends real requests and records them. */
export function recordFetch(): { readonly fetch: typeof fetch; readonly sent: SentRequest[] } {
  const sent: SentRequest[] = [];
  return {
    sent,
    fetch: async (input, init) => {
      const request = new Request(input, init);
      const text = await request.clone().text();
      const response = await fetch(request);
      sent.push({
        method: request.method,
        url: new URL(request.url),
        headers: request.headers,
        body: text === '' ? undefined : (JSON.parse(text) as unknown),
        status: response.status,
      });
      return response;
    },
  };
}
