import type { PetClientOptions } from './client.js';
import { toStoreErrors } from './errors.js';
import { readForeignResponse } from './foreign-response.js';
import { createPetError, isPetError } from './pet-error.js';
import { parseJson } from './request.js';

/** A key as its holder sees it. Times are in ISO 8601, in UTC. */
export interface Key {
  readonly id: string;
  readonly label: string | null;
  readonly plan: 'free' | 'pro' | 'business' | 'enterprise';
  /** Whether it may not add animals. */
  readonly readOnly: boolean;
  readonly limits: { readonly perMinute: number; readonly perDay: number };
  /** What is left. `resetAt` is in Unix seconds. */
  readonly windows: readonly {
    readonly name: string;
    readonly seconds: number;
    readonly limit: number;
    readonly remaining: number;
    readonly resetAt: number;
  }[];
  readonly createdAt: string;
  readonly expiresAt: string | null;
  readonly lastUsedAt: string | null;
  /** When the secret of this client ends: before the key, if a new one has replaced it. */
  readonly secretEndsAt: string | null;
  /** When the secret before the last rotation ends, or ended. */
  readonly previousEndsAt: string | null;
  /** Whether the store lets a key replace its own secret. */
  readonly canRotate: boolean;
}

export interface KeyUsage {
  /** The first day, such as `2030-12-05`. */
  readonly since: string;
  /** By day, client and operation: the last day first, and in each the highest cost first. */
  readonly rows: readonly {
    readonly day: string;
    readonly client: string | null;
    readonly operation: string;
    readonly requests: number;
    readonly cost: number;
    readonly errors: number;
    /** Part of the errors. */
    readonly refused: number;
    readonly deprecatedCalls: number;
    /** What was used although it is deprecated. */
    readonly deprecated: readonly string[];
  }[];
  /** Whether there are more rows, of earlier days. */
  readonly isCut: boolean;
}

/** The codes of REST and those of GraphQL. */
const CODES: Readonly<Record<string, string>> = {
  unauthorized: 'UNAUTHENTICATED',
  invalid_request: 'BAD_USER_INPUT',
  rate_limited: 'RATE_LIMITED',
  key_banned: 'KEY_BANNED',
  overloaded: 'SERVICE_UNAVAILABLE',
  unavailable: 'SERVICE_UNAVAILABLE',
  internal_error: 'INTERNAL_SERVER_ERROR',
};

/** Creates the function that asks the REST interface beside the GraphQL endpoint about the key. It throws a PetError. */
export function createKeyRequest(
  {
    url,
    headers,
    timeoutMs,
    fetch,
  }: Required<Pick<PetClientOptions, 'fetch' | 'timeoutMs'>> & {
    readonly url: URL;
    readonly headers: Readonly<Record<string, string>>;
  },
  onHeaders: (headers: Headers) => void,
) {
  return async <T>(path: string, signal: AbortSignal | undefined): Promise<T> => {
    signal?.throwIfAborted();
    const controller = new AbortController();
    const abort = (): void => controller.abort();
    const timer = setTimeout(abort, timeoutMs);
    signal?.addEventListener('abort', abort);
    try {
      const { href } = new URL(`${url.pathname.endsWith('/') ? '../' : ''}v1/key${path}`, url);
      const response = await fetch(href, {
        headers: { ...headers, Accept: 'application/json' },
        signal: controller.signal,
        // No other server gets the key.
        redirect: 'manual',
      });
      const body = parseJson(await response.text());
      if (!response.ok || body === undefined) throw toFailure(response, body);
      onHeaders(response.headers);
      return body as T;
    } catch (cause) {
      signal?.throwIfAborted();
      if (isPetError(cause)) throw cause;
      const code = controller.signal.aborted ? 'TIMED_OUT' : 'CONNECTION_FAILED';
      throw createPetError({ code, message: `${url.origin} did not answer about the key.` }, cause);
    } finally {
      clearTimeout(timer);
      signal?.removeEventListener('abort', abort);
    }
  };
}

function toFailure({ status, headers }: Response, error: unknown) {
  const { code, message } = Object(error) as Partial<Record<'code' | 'message', string>>;
  if (!code) return createPetError(readForeignResponse(status, headers));
  const retryAfter = Number(headers.get('retry-after') ?? NaN);
  const extensions = { code: CODES[code] ?? code, requestId: headers.get('x-request-id'), retryAfter, error };
  return createPetError(toStoreErrors([{ message, extensions }])[0] as Parameters<typeof createPetError>[0]);
}
