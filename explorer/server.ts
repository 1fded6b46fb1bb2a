import { parseStatedWindows, type StatedWindow } from '../src/access/limit-fields.js';

/** A deprecated field that an operation used, as `extensions.deprecations` names it. */
export interface Deprecation {
  readonly coordinate: string;
  readonly reason: string;
  readonly sunset?: string;
}

/** What the explorer shows of an answer beside its result. */
export interface Answer {
  readonly status: number;
  /** What is left of the key's plan; empty when the server does not say. */
  readonly windows: readonly StatedWindow[];
  /** The first error that stands for the whole operation. */
  readonly refusal?: { readonly code: string; readonly message: string; readonly retryAfter?: number } | undefined;
  readonly deprecations: readonly Deprecation[];
  readonly hadKey: boolean;
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

/** Addresses are relative to the page, so that it works below a prefix too. */
const toUrl = (path: string): URL => new URL(path, document.baseURI);

/**
 * Sends one operation.
 * @param key - the API key; empty: none is sent
 * @param headers - further headers; one of them may be an `Authorization` that takes the key's place
 */
export async function send(
  operation: Operation,
  key: string,
  headers: Readonly<Record<string, string>> = {},
): Promise<{ readonly result: GraphqlResult; readonly answer: Answer }> {
  const sent = new Headers({
    'Content-Type': 'application/json',
    Accept: 'application/json',
    'apollographql-client-name': 'explorer',
  });
  if (key !== '') sent.set('Authorization', `Bearer ${key}`);
  for (const [name, value] of Object.entries(headers)) sent.set(name, value);
  const response = await fetch(toUrl('graphql'), { method: 'POST', headers: sent, body: JSON.stringify(operation) });
  const result = (await response.json()) as GraphqlResult;
  const at = Date.now();
  const { message = '', extensions = {} } = result.errors?.[0] ?? {};
  const answer: Answer = {
    status: response.status,
    windows: parseStatedWindows({ header: (name) => response.headers.get(name) ?? undefined }, at),
    refusal: response.ok ? undefined : { code: '', ...extensions, message },
    deprecations: result.extensions?.deprecations ?? [],
    hadKey: sent.has('Authorization'),
    at,
  };
  return { result, answer };
}

/** A key for trying things out; undefined where the server has none or does not hand it to this browser. */
export async function fetchDevelopmentKey(): Promise<string | undefined> {
  // A POST, because browsers then name the page's origin, which the server goes by.
  const response = await fetch(toUrl('explorer/development-key'), { method: 'POST' });
  return response.status === 200 ? ((await response.json()) as { key: string }).key : undefined;
}

/** The first number in a JSON value that JavaScript has rounded; undefined when there is none. */
export function findRoundedNumber(value: unknown): number | undefined {
  if (typeof value === 'number') return Number.isInteger(value) && !Number.isSafeInteger(value) ? value : undefined;
  if (typeof value !== 'object' || value === null) return undefined;
  for (const member of Object.values(value)) {
    const found = findRoundedNumber(member);
    if (found !== undefined) return found;
  }
  return undefined;
}
