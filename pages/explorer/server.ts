import { updateWindows } from '../../packages/client/src/limits.js';
import { fetchJson, toError } from '../fetch-json.js';
import type { DevelopmentKeys } from '../key-memory.js';

/** A deprecated field that an operation used: one entry of `extensions.deprecations`. */
interface Deprecation {
  readonly coordinate: string;
  readonly reason: string;
  readonly sunset?: string;
}

/** The parts of a response that the explorer reads. */
interface GraphqlResult {
  readonly data?: unknown;
  readonly errors?: readonly {
    readonly message: string;
    readonly extensions?: { readonly code?: string; readonly retryAfter?: number };
  }[];
  readonly extensions?: { readonly deprecations?: readonly Deprecation[] };
}

export interface Operation {
  readonly query: string;
  readonly operationName?: string | null | undefined;
  readonly variables?: unknown;
}

export type Answer = Awaited<ReturnType<typeof send>>['answer'];

/**
 * Sends one operation.
 * @param key - the API key. If empty, none is sent.
 * @param headers - additional headers. An `Authorization` header among them replaces the key.
 * @throws Error with a message for the user
 */
export async function send(operation: Operation, key: string, headers: Readonly<Record<string, string>> = {}) {
  const init = { method: 'POST', headers: toHeaders(key, headers), body: JSON.stringify(operation) };
  const { response, body } = await fetchJson('graphql', init);
  const result = body as GraphqlResult;
  const error = result.errors?.[0];
  /** What the explorer shows beside the result. */
  const answer = {
    query: operation.query,
    status: response.status,
    // The shorter first. Without a valid key, the headers count for the client's address.
    windows: response.status === 401 ? [] : updateWindows([], response.headers),
    /** The first error, if the whole operation failed. */
    refusal: response.ok ? undefined : { code: '', ...error?.extensions, message: error?.message ?? '' },
    deprecations: result.extensions?.deprecations ?? [],
    /** Milliseconds since the epoch. */
    at: Date.now(),
  };
  return { result, answer };
}

function toHeaders(key: string, others: Readonly<Record<string, string>>): Headers {
  try {
    const headers = new Headers({
      'Content-Type': 'application/json',
      Accept: 'application/json',
      'apollographql-client-name': 'explorer',
    });
    if (key !== '') headers.set('Authorization', `Bearer ${key}`);
    for (const [name, value] of Object.entries(others)) headers.set(name, value);
    return headers;
  } catch {
    throw new Error('A header, perhaps the key, has a character that headers cannot carry.');
  }
}

/**
 * Exchanges the one-time token in the page's address for the development keys, and removes it from the address.
 * @returns undefined if there is no token
 * @throws Error if the server does not answer, or refuses the token, as it does the second time
 */
export async function fetchDevelopmentKeys(): Promise<DevelopmentKeys | undefined> {
  const token = /^#token=(.+)$/.exec(location.hash)?.[1];
  if (token === undefined) return undefined;
  const { response, body } = await fetchJson('explorer/development-keys', {
    method: 'POST',
    headers: { Authorization: `Bearer ${token}` },
  });
  // Without an answer, reloading the page sends the token again.
  history.replaceState(null, '', location.pathname + location.search);
  if (!response.ok) throw toError(response, body);
  return body as DevelopmentKeys;
}

/** Finds the first number in a JSON value that JavaScript may have rounded: beyond 2^53, or to infinity. */
export function findRoundedNumber(value: unknown): number | undefined {
  if (typeof value === 'number') return Math.abs(value) > Number.MAX_SAFE_INTEGER ? value : undefined;
  if (typeof value !== 'object' || value === null) return undefined;
  return Object.values(value)
    .map(findRoundedNumber)
    .find((found) => found !== undefined);
}
