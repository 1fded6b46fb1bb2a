import { updateWindows } from '../../packages/client/src/limits.js';

/**
 * Sends a request below /v1/key. Returns the answer, and what the key has left by the clock of this browser.
 * @throws Error with a message for the user
 */
export async function ask(path: string, key: string, method = 'GET') {
  let headers;
  try {
    headers = new Headers({ Authorization: `Bearer ${key}`, 'apollographql-client-name': 'key page' });
  } catch {
    throw new Error('The key has a character that no key has.');
  }
  // Relative to the page, so that it also works under a path prefix.
  const response = await fetch(new URL(`v1/key${path}`, document.baseURI), { method, headers }).catch(() => {
    throw new Error('The server cannot be reached.');
  });
  const body = (await response.json().catch(() => ({}))) as { readonly message?: string };
  if (!response.ok) throw new Error(body.message ?? `The response has status ${response.status}.`);
  return { answer: body as unknown, windows: updateWindows([], response.headers) };
}
