import { updateWindows } from '../../packages/client/src/limits.js';
import { fetchJson, toError } from '../fetch-json.js';

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
  const { response, body } = await fetchJson(`v1/key${path}`, { method, headers });
  if (!response.ok) throw toError(response, body);
  return { answer: body as unknown, windows: updateWindows([], response.headers) };
}
