import { request as startRequest } from 'node:http';

export interface RawRequest {
  readonly method?: string;
  /** Sent unchanged. */
  readonly path: string;
  /** Any headers, including `Host`, which `fetch` does not allow. */
  readonly headers?: Record<string, string>;
  /** The local address to send from. */
  readonly localAddress?: string | undefined;
}

/** Sends a request that `fetch` does not allow. */
export function request(
  url: string,
  { method = 'GET', path, headers = {}, localAddress }: RawRequest,
): Promise<{ readonly status: number; readonly body: string }> {
  const { hostname, port } = new URL(url);
  return new Promise((resolve, reject) => {
    startRequest({ hostname, port, method, path, headers, localAddress }, (response) => {
      let body = '';
      response.setEncoding('utf8').on('data', (text: string) => (body += text));
      response.on('end', () => resolve({ status: response.statusCode ?? 0, body }));
    })
      .on('error', reject)
      .end();
  });
}
