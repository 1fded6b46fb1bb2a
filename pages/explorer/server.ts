import type { DevelopmentKeys } from '../key-memory.js';

/** What a key has left in one window. */
export interface WindowState {
  /** Such as `minute`. */
  readonly name: string;
  readonly limit: number;
  readonly remaining: number;
  /** Milliseconds since the epoch. */
  readonly resetAt: number;
}

/** A deprecated field that an operation used: one entry of `extensions.deprecations`. */
export interface Deprecation {
  readonly coordinate: string;
  readonly reason: string;
  readonly sunset?: string;
}

/** The parts of a response that the explorer shows beside the result. */
export interface Answer {
  readonly status: number;
  /** The key's windows, the shorter first. Empty if the response does not state them. */
  readonly windows: readonly WindowState[];
  /** The first error, if the whole operation failed. */
  readonly refusal?: { readonly code: string; readonly message: string; readonly retryAfter?: number } | undefined;
  readonly deprecations: readonly Deprecation[];
  /** Milliseconds since the epoch. */
  readonly at: number;
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

/** Why there is no response of the server, for the user. */
export class SendError extends Error {}

/** URLs are relative to the page, so that it also works under a path prefix. */
const toUrl = (path: string): URL => new URL(path, document.baseURI);

/**
 * Sends one operation.
 * @param key - the API key. If empty, none is sent.
 * @param headers - additional headers. An `Authorization` header among them replaces the key.
 * @throws SendError
 */
export async function send(
  operation: Operation,
  key: string,
  headers: Readonly<Record<string, string>> = {},
): Promise<{ readonly result: GraphqlResult; readonly answer: Answer }> {
  const sent = orExplain('A header, perhaps the key, has a character that headers cannot carry.', () =>
    toHeaders(key, headers),
  );
  const body = JSON.stringify(operation);
  const response = await fetch(toUrl('graphql'), { method: 'POST', headers: sent, body }).catch(() => {
    throw new SendError('The server cannot be reached.');
  });
  const text = await response.text();
  const result = orExplain(
    `The response, with status ${response.status}, is not JSON. It may come from a proxy.`,
    () => JSON.parse(text) as GraphqlResult,
  );
  const at = Date.now();
  const { message = '', extensions = {} } = result.errors?.[0] ?? {};
  const answer: Answer = {
    status: response.status,
    // Without a valid key, the headers count for the client's address.
    windows: response.status === 401 ? [] : parseWindows(response.headers, at),
    refusal: response.ok ? undefined : { code: '', ...extensions, message },
    deprecations: result.extensions?.deprecations ?? [],
    at,
  };
  return { result, answer };
}

function orExplain<T>(reason: string, work: () => T): T {
  try {
    return work();
  } catch {
    throw new SendError(reason);
  }
}

function toHeaders(key: string, others: Readonly<Record<string, string>>): Headers {
  const headers = new Headers({
    'Content-Type': 'application/json',
    Accept: 'application/json',
    'apollographql-client-name': 'explorer',
  });
  if (key !== '') headers.set('Authorization', `Bearer ${key}`);
  for (const [name, value] of Object.entries(others)) headers.set(name, value);
  return headers;
}

/** Reads `RateLimit-Policy` and `RateLimit` as this server writes them: with the same windows in the same order. */
function parseWindows(headers: Headers, at: number): WindowState[] {
  const policies = headers.get('RateLimit-Policy')?.matchAll(/"([^"]{1,100})";q=(\d+)/g) ?? [];
  const states = [...(headers.get('RateLimit')?.matchAll(/;r=(\d+);t=(\d+)/g) ?? [])];
  return Array.from(policies, ([, name = '', limit], index) => {
    const [, remaining, seconds] = states[index] ?? [];
    return { name, limit: Number(limit), remaining: Number(remaining), resetAt: at + Number(seconds) * 1_000 };
  });
}

/**
 * Exchanges the one-time token in the page's address for the development keys, and removes it from the address.
 * @returns undefined if there is no token
 * @throws SendError if the server refuses the token, as it does the second time
 */
export async function fetchDevelopmentKeys(): Promise<DevelopmentKeys | undefined> {
  const token = /^#token=(.+)$/.exec(location.hash)?.[1];
  if (token === undefined) return undefined;
  history.replaceState(null, '', location.pathname + location.search);
  const headers = { Authorization: `Bearer ${token}` };
  const response = await fetch(toUrl('explorer/development-keys'), { method: 'POST', headers });
  const body: unknown = await response.json();
  if (!response.ok) throw new SendError((body as { message: string }).message);
  return body as DevelopmentKeys;
}

/** Finds the first number in a JSON value that JavaScript has rounded. */
export function findRoundedNumber(value: unknown): number | undefined {
  if (typeof value === 'number') return Number.isInteger(value) && !Number.isSafeInteger(value) ? value : undefined;
  if (typeof value !== 'object' || value === null) return undefined;
  return Object.values(value)
    .map(findRoundedNumber)
    .find((found) => found !== undefined);
}
