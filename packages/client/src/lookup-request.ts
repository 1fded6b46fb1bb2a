import { toStoreErrors } from './errors.js';
import type { Failure } from './pet-error.js';
import { parseRetryAfter } from './retry-after.js';

export type PetStatus = 'AVAILABLE' | 'PENDING' | 'SOLD';

/** An animal of the store. Its identifiers are int64 in canonical decimal, exact. */
export interface LoadedPet {
  readonly id: string;
  readonly name: string;
  readonly categoryId: string;
  /** Null if the store does not know it. */
  readonly status: PetStatus | null;
}

/** The result for one id. */
export type LookupResult =
  { readonly pet: LoadedPet; readonly failure?: undefined } | { readonly pet?: undefined; readonly failure: Failure };

/** The response to one request. */
export interface LookupResponse {
  /** One result for each id, in the order of the ids. If the request was refused as a whole, all have the same failure. */
  readonly results: readonly LookupResult[];
  /** Why the request failed as a whole. */
  readonly refusal?: Failure;
  /** Whether a request for fewer animals may succeed. */
  readonly isTooLarge: boolean;
  readonly headers: Headers;
}

/**
 * Looks up animals in one request. It does not retry. It does not follow redirects, so the key is sent to no other server.
 * @param controller - abort it to cancel the request; it is also aborted when the request times out
 * @returns a response in every case: a failure to connect is a refusal too
 */
export type LookupRequest = (ids: readonly string[], controller: AbortController) => Promise<LookupResponse>;

export interface LookupRequestOptions {
  readonly url: URL;
  readonly key: string;
  readonly clientName?: string;
  readonly timeoutMs: number;
  readonly fetch: (url: string, init: RequestInit) => Promise<Response>;
}

export function createLookupRequest({ url, key, clientName, timeoutMs, fetch }: LookupRequestOptions): LookupRequest {
  const headers = {
    Authorization: `Bearer ${key}`,
    'Content-Type': 'application/json',
    Accept: 'application/json',
    ...(clientName !== undefined && { 'apollographql-client-name': clientName }),
  };

  return async (ids, controller) => {
    const { signal } = controller;
    const timeout = new Error('The request timed out.');
    const timer = setTimeout(() => controller.abort(timeout), timeoutMs);
    try {
      const init = { method: 'POST', headers, body: toBody(ids), signal, redirect: 'manual' } as const;
      const response = await fetch(url.href, init);
      return readResponse(response, await response.text(), ids.length);
    } catch (cause) {
      const failure: Failure =
        signal.reason === timeout
          ? { code: 'TIMED_OUT', message: `${url.origin} did not respond within ${timeoutMs} ms.`, cause }
          : { code: 'CONNECTION_FAILED', message: `${url.origin} cannot be reached: ${explain(cause)}`, cause };
      return refuse(failure, ids.length);
    } finally {
      clearTimeout(timer);
    }
  };
}

/**
 * Writes the body of a request: aliases `p0`, `p1`, … with the ids in the variables `i0`, `i1`, …. Requests of the same
 * size have the same document, so the server compiles it once.
 */
function toBody(ids: readonly string[]): string {
  const variables = Object.fromEntries(ids.map((id, index) => [`i${index}`, id]));
  const types = ids.map((_, index) => `$i${index}:ID!`).join();
  const fields = ids.map((_, index) => `p${index}:pet(id:$i${index}){...f}`).join(' ');
  const query = `query LookUp(${types}){${fields}}fragment f on Pet{id name categoryId status}`;
  return JSON.stringify({ query, variables });
}

function readResponse({ status, headers }: Response, text: string, count: number): LookupResponse {
  const body = parseObject(text);
  const errors = toStoreErrors(body);
  const data = body?.data;
  if (!isObject(data)) {
    return refuse(errors[0] ?? toForeignFailure(status, headers), count, status, headers);
  }
  const failures = new Map<unknown, Failure>(errors.map((error) => [error.path?.[0], error]));
  const missing: Failure = { code: 'UNRECOGNIZED', message: 'The response has neither an animal nor an error.' };
  const results = Array.from({ length: count }, (_, index): LookupResult => {
    const alias = `p${index}`;
    const pet = data[alias];
    return isObject(pet) ? { pet: pet as unknown as LoadedPet } : { failure: failures.get(alias) ?? missing };
  });
  return { results, isTooLarge: false, headers };
}

function refuse(failure: Failure, count: number, status = 0, headers = new Headers()): LookupResponse {
  const { code } = failure;
  // The store has a limit for the cost, one for the number of root fields, and one for the size of the body.
  const isTooLarge = code === 'OPERATION_TOO_LARGE' || (code === 'BAD_REQUEST' && (status === 400 || status === 413));
  return { results: Array<LookupResult>(count).fill({ failure }), refusal: failure, isTooLarge, headers };
}

/** Explains a response that is not GraphQL, so it comes from something in front of the store, such as a load balancer. */
function toForeignFailure(status: number, headers: Headers): Failure {
  const message = `The endpoint returned HTTP status ${status} without a GraphQL result.`;
  const retryAfter = parseRetryAfter(headers);
  if (status === 429) return { code: 'RATE_LIMITED', message, retryAfter: retryAfter ?? 1 };
  if (status === 502 || status === 503 || status === 504) return { code: 'SERVICE_UNAVAILABLE', message, retryAfter };
  return { code: 'UNRECOGNIZED', message };
}

/** In Node, `fetch` states the reason in the cause of its error. */
function explain(error: unknown): string {
  const { cause = error } = Object(error) as { readonly cause?: unknown };
  const { message, code } = Object(cause) as { readonly message?: string; readonly code?: string };
  return message || code || 'unknown';
}

function parseObject(text: string): Readonly<Record<string, unknown>> | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return isObject(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null;
}
