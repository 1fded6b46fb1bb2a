/**
 * The errors of the animal store's GraphQL endpoint: what each code means, and whether a retry can help. This module
 * imports nothing.
 */

/**
 * The catalogue. `repeat` says whether the same request may succeed later: `no`; `after-wait`, after `retryAfter`
 * seconds; or `with-backoff`, after `retryAfter` seconds if the error states them, otherwise after increasing pauses. If
 * an UPSTREAM_ERROR has neither `retryAfter` nor an `error.status` of 500 or more, no retry helps.
 */
export const STORE_ERRORS = {
  UNAUTHENTICATED: { repeat: 'no', meaning: 'The key is missing, unknown, revoked or expired.' },
  FORBIDDEN: { repeat: 'no', meaning: 'The key is read-only: it may not add animals.' },
  BAD_USER_INPUT: { repeat: 'no', meaning: 'An argument or variable is wrong, or an Idempotency-Key is reused.' },
  NOT_FOUND: { repeat: 'no', meaning: 'The animal does not exist.' },
  RATE_LIMITED: { repeat: 'after-wait', meaning: 'A limit of the plan or of the client address is reached.' },
  KEY_BANNED: { repeat: 'after-wait', meaning: 'The key kept exceeding its limit and is banned.' },
  OPERATION_TOO_LARGE: { repeat: 'no', meaning: 'It costs more than a window holds, or its response is too large.' },
  DOCUMENT_NOT_TRUSTED: { repeat: 'no', meaning: 'The document is not in the manifest.' },
  BAD_REQUEST: { repeat: 'no', meaning: 'The form, path, method, size or media type of the request is wrong.' },
  GRAPHQL_PARSE_FAILED: { repeat: 'no', meaning: 'The document is not valid GraphQL syntax.' },
  GRAPHQL_VALIDATION_FAILED: { repeat: 'no', meaning: 'The document does not match the schema.' },
  OPERATION_RESOLUTION_FAILURE: { repeat: 'no', meaning: 'operationName names no operation of the document.' },
  PERSISTED_QUERY_NOT_FOUND: { repeat: 'no', meaning: 'The hash is unknown. Send the document with it once.' },
  SERVICE_UNAVAILABLE: { repeat: 'with-backoff', meaning: 'The store is overloaded, or its database is unavailable.' },
  UPSTREAM_UNAVAILABLE: { repeat: 'with-backoff', meaning: 'The store behind the gateway cannot be reached.' },
  UPSTREAM_TIMEOUT: { repeat: 'with-backoff', meaning: 'The store behind the gateway did not respond in time.' },
  UPSTREAM_ERROR: { repeat: 'with-backoff', meaning: 'The store behind the gateway failed.' },
  INTERNAL_SERVER_ERROR: { repeat: 'no', meaning: 'The store failed unexpectedly. Its log has the request id.' },
} as const satisfies Record<string, { meaning: string; repeat: 'no' | 'after-wait' | 'with-backoff' }>;

/** No window is longer. What states a longer wait is wrong, and could stop a client for ever. */
const LONGEST_WAIT_S = 86_400;

/** The values of `extensions.code`. */
export type StoreErrorCode = keyof typeof STORE_ERRORS;

/**
 * The properties that only some errors have. `retryAfter` is in seconds, at most a day; `cost` is that of the refused
 * operation.
 */
interface Details {
  readonly RATE_LIMITED: { readonly retryAfter: number; readonly cost?: number };
  readonly KEY_BANNED: { readonly retryAfter: number };
  readonly OPERATION_TOO_LARGE: { readonly cost?: number };
  readonly SERVICE_UNAVAILABLE: { readonly retryAfter?: number };
  readonly UPSTREAM_ERROR: { readonly retryAfter?: number };
}

interface ErrorOf<Code> {
  readonly code: Code;
  /** Written for people. It may change, so decide by `code`. */
  readonly message: string;
  /** The response path of the field; absent if the store refused the whole operation. */
  readonly path?: readonly (string | number)[];
  /** The id of the request, also in the `X-Request-Id` header and in the store's log. Empty if no request was sent. */
  readonly requestId: string;
  /** The Error body of REST; absent for errors that exist only in GraphQL. */
  readonly error?: { readonly code: string; readonly message: string; readonly status: number };
}

/** An error of the store, with its `extensions` as properties. Use `switch (error.code)` to distinguish them. */
export type StoreError = {
  [C in StoreErrorCode]: ErrorOf<C> & (C extends keyof Details ? Details[C] : unknown);
}[StoreErrorCode];

/** An error that is not in this catalogue: it comes from a newer store, or from something in front of the store. */
export type UnrecognizedError = Pick<ErrorOf<'UNRECOGNIZED'>, 'code' | 'message' | 'path'> & {
  /** The value of `extensions.code`. */
  readonly receivedCode?: string;
};

/** Whether a value is a code of the catalogue. */
export function isStoreErrorCode(value: unknown): value is StoreErrorCode {
  return typeof value === 'string' && Object.hasOwn(STORE_ERRORS, value);
}

/**
 * Collects the errors of a response from any GraphQL client.
 * @param source - a GraphQL result, a list of GraphQL errors, or what a client throws: Apollo Client's
 *   `CombinedGraphQLErrors` and `ServerError`, urql's `CombinedError`, graphql-request's `ClientError`
 * @returns the errors in order; empty if there are none, for example because the connection failed
 */
export function toStoreErrors(source: unknown): readonly (StoreError | UnrecognizedError)[] {
  return listErrors(source).map(toError);
}

function listErrors(source: unknown): readonly unknown[] {
  // A list of errors, or the results of a batch.
  const isResult = (entry: unknown): boolean => 'errors' in toRecord(entry) || 'data' in toRecord(entry);
  if (Array.isArray(source)) return source.flatMap((entry) => (isResult(entry) ? listErrors(entry) : [entry]));
  const { errors, graphQLErrors, response, bodyText } = toRecord(source);
  const list = errors ?? graphQLErrors ?? toRecord(response).errors;
  if (Array.isArray(list)) return list;
  // graphql-request throws the results of a batch as { response: { 0: …, 1: …, status, headers } }.
  const results = Object.values(toRecord(response)).filter(isResult);
  return listErrors(typeof bodyText === 'string' ? parseJson(bodyText) : results);
}

function toError(raw: unknown): StoreError | UnrecognizedError {
  const { message, path, extensions } = toRecord(raw);
  const { code, requestId, error, retryAfter, cost } = toRecord(extensions);
  const place = {
    message: typeof message === 'string' ? message : 'The error has no message.',
    ...(Array.isArray(path) && { path }),
  };
  if (!isStoreErrorCode(code))
    return { ...place, code: 'UNRECOGNIZED', ...(typeof code === 'string' && { receivedCode: code }) };
  const waits = STORE_ERRORS[code].repeat === 'after-wait';
  // TypeScript cannot check that the properties belong to the code.
  return {
    ...place,
    code,
    requestId: typeof requestId === 'string' ? requestId : '',
    ...(Object(error) === error && { error }),
    ...(typeof retryAfter === 'number' && retryAfter >= 0
      ? { retryAfter: Math.min(retryAfter, LONGEST_WAIT_S) }
      : waits && { retryAfter: 1 }),
    ...(typeof cost === 'number' && { cost }),
  } as StoreError;
}

/** The properties of any value. */
function toRecord(value: unknown): Readonly<Record<string, unknown>> {
  return Object(value) as Readonly<Record<string, unknown>>;
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
