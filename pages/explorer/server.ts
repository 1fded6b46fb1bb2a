import type { DevelopmentKeys } from '../key-memory.js';
import type { WindowState } from '../../src/access/ledger.js';
import { parseStatedWindows } from '../../src/proxy/limit-fields.js';

/** A deprecated field that an operation used: one entry of `extensions.deprecations`. */
export interface Deprecation {
  readonly coordinate: string;
  readonly reason: string;
  readonly sunset?: string;
}

/** The parts of a response that the explorer shows beside the result. */
export interface Answer {
  readonly status: number;
  /** The key's windows. Empty if the response does not state them. */
  readonly windows: readonly WindowState[];
  /** The first error, if the whole operation failed. */
  readonly refusal?: { readonly code: string; readonly message: string; readonly retryAfter?: number } | undefined;
  readonly deprecations: readonly Deprecation[];
  readonly hadKey: boolean;
  /** How long the response took and how large it was. Absent for the page's own requests. */
  readonly sent?: { readonly ms: number; readonly bytes: number };
  /** The response's headers about limits. */
  readonly limitHeaders: readonly (readonly [name: string, value: string])[];
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
  const startedAt = performance.now();
  const response = await fetch(toUrl('graphql'), {
    method: 'POST',
    headers: sent,
    body: JSON.stringify(operation),
  }).catch(() => {
    throw new SendError('The server cannot be reached.');
  });
  const text = await response.text();
  const ms = performance.now() - startedAt;
  const result = orExplain(
    `The response, with status ${response.status}, is not JSON. It may come from a proxy.`,
    () => JSON.parse(text) as GraphqlResult,
  );
  const at = Date.now();
  const { message = '', extensions = {} } = result.errors?.[0] ?? {};
  const answer: Answer = {
    status: response.status,
    windows: parseStatedWindows({ header: (name) => response.headers.get(name) ?? undefined }, at),
    refusal: response.ok ? undefined : { code: '', ...extensions, message },
    deprecations: result.extensions?.deprecations ?? [],
    hadKey: sent.has('Authorization'),
    sent: { ms, bytes: new Blob([text]).size },
    limitHeaders: [...response.headers].filter(([name]) => /ratelimit|retry-after/.test(name)),
    at,
  };
  return { result, answer };
}

/** Why there is no response of the server, for the user. */
export class SendError extends Error {}

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

/**
 * Exchanges the one-time token in the page's address for the development keys, and removes it from the address.
 * @returns no keys if there is no token; no keys and the reason if the server refuses it, as it does the second time
 */
export async function fetchDevelopmentKeys(): Promise<{ keys?: DevelopmentKeys; refusal?: string }> {
  const token = /^#token=(.+)$/.exec(location.hash)?.[1];
  if (token === undefined) return {};
  history.replaceState(null, '', location.pathname + location.search);
  const headers = { Authorization: `Bearer ${token}` };
  const response = await fetch(toUrl('explorer/development-keys'), { method: 'POST', headers });
  const body: unknown = await response.json();
  return response.ok ? { keys: body as DevelopmentKeys } : { refusal: (body as { message: string }).message };
}

/** Fetches the command that creates a key, in the form in which the server was started. A gateway has none. */
export async function fetchNewKeyCommand(): Promise<string | undefined> {
  const response = await fetch(toUrl('.'), { headers: { Accept: 'application/json' } });
  return ((await response.json()) as { newKeyCommand?: string }).newKeyCommand;
}

/** Finds the first number in a JSON value that JavaScript has rounded. */
export function findRoundedNumber(value: unknown): number | undefined {
  if (typeof value === 'number') return Number.isInteger(value) && !Number.isSafeInteger(value) ? value : undefined;
  if (typeof value !== 'object' || value === null) return undefined;
  for (const member of Object.values(value)) {
    const found = findRoundedNumber(member);
    if (found !== undefined) return found;
  }
  return undefined;
}
