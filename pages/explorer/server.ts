import { updateWindows } from '../../packages/client/src/limits.js';
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
export async function send(operation: Operation, key: string, headers: Readonly<Record<string, string>> = {}) {
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
  const error = result.errors?.[0];
  /** What the explorer shows beside the result. */
  const answer = {
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
