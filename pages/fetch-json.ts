/**
 * Sends a request to this server. URLs are relative to the page, so that it also works under a path prefix.
 * @throws Error with a message for the user
 */
export async function fetchJson(path: string, init: RequestInit) {
  const response = await fetch(new URL(path, document.baseURI), init).catch(() => {
    throw new Error('The server cannot be reached.');
  });
  const body: unknown = await response.json().catch(() => undefined);
  if (typeof body === 'object' && body !== null) return { response, body };
  throw new Error(`The response, with status ${response.status}, is not complete JSON. It may come from a proxy.`);
}

/** Returns why a request was refused, for the user. Something in front of the server may give no reason. */
export function toError({ status }: Response, body: object): Error {
  const { message } = body as { message?: unknown };
  return new Error(typeof message === 'string' ? message : `The response has status ${status}.`);
}
