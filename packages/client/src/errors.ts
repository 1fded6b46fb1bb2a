/**
 * The errors of the animal store's GraphQL endpoint: what each code means, and whether a retry can help. This module
 * imports nothing.
 */

/** What a client should know about an error code. */
export interface StoreErrorInfo {
  /** What happened, for developers. */
  readonly meaning: string;
  /**
   * The HTTP statuses of a response that consists of this error, without `data`. Empty if it is always the error of one
   * field, which never changes the status.
   */
  readonly httpStatuses: readonly number[];
  /** Whether it can be the error of one field, next to the data of others. */
  readonly ofField: boolean;
  /**
   * Whether the same request may succeed later: `no`; `after-wait`, after `retryAfter` seconds; or `with-backoff`, after
   * `retryAfter` seconds if the error states them, otherwise after increasing pauses.
   */
  readonly repeat: 'no' | 'after-wait' | 'with-backoff';
  /** Whether the error has `retryAfter`. */
  readonly retryAfter: 'always' | 'sometimes' | 'never';
}

/** The catalogue: every code of the store. */
export const STORE_ERRORS = {
  UNAUTHENTICATED: {
    meaning: 'The key is missing, unknown, revoked or expired.',
    httpStatuses: [401],
    ofField: true,
    repeat: 'no',
    retryAfter: 'never',
  },
  BAD_USER_INPUT: {
    meaning: 'An argument or variable is missing or invalid, or the Idempotency-Key belongs to a different request.',
    httpStatuses: [400],
    ofField: true,
    repeat: 'no',
    retryAfter: 'never',
  },
  NOT_FOUND: {
    meaning: 'The animal does not exist.',
    httpStatuses: [],
    ofField: true,
    repeat: 'no',
    retryAfter: 'never',
  },
  RATE_LIMITED: {
    meaning: "A limit of the key's plan or of the client's address is reached.",
    httpStatuses: [429],
    ofField: true,
    repeat: 'after-wait',
    retryAfter: 'always',
  },
  KEY_BANNED: {
    meaning: 'The key kept sending requests beyond its limit and is banned for a while.',
    httpStatuses: [429],
    ofField: true,
    repeat: 'after-wait',
    retryAfter: 'always',
  },
  OPERATION_TOO_LARGE: {
    meaning: "The operation costs more than a whole window of the key's plan. Split it.",
    httpStatuses: [400],
    ofField: false,
    repeat: 'no',
    retryAfter: 'never',
  },
  DOCUMENT_NOT_TRUSTED: {
    meaning: 'The document is not in the manifest of trusted documents, which the server requires.',
    httpStatuses: [400],
    ofField: false,
    repeat: 'no',
    retryAfter: 'never',
  },
  BAD_REQUEST: {
    meaning: 'The form, path, method, size or media type of the request is wrong.',
    httpStatuses: [400, 404, 405, 406, 413, 415, 431],
    ofField: false,
    repeat: 'no',
    retryAfter: 'never',
  },
  GRAPHQL_PARSE_FAILED: {
    meaning: 'The document is not valid GraphQL syntax.',
    httpStatuses: [400],
    ofField: false,
    repeat: 'no',
    retryAfter: 'never',
  },
  GRAPHQL_VALIDATION_FAILED: {
    meaning: 'The document does not match the schema.',
    httpStatuses: [400],
    ofField: false,
    repeat: 'no',
    retryAfter: 'never',
  },
  OPERATION_RESOLUTION_FAILURE: {
    meaning: 'The document has several operations. Set operationName to the name of one.',
    httpStatuses: [400],
    ofField: false,
    repeat: 'no',
    retryAfter: 'never',
  },
  PERSISTED_QUERY_NOT_FOUND: {
    meaning: 'The server does not know the hash of this document. Send the document with it once.',
    httpStatuses: [200],
    ofField: false,
    repeat: 'no',
    retryAfter: 'never',
  },
  SERVICE_UNAVAILABLE: {
    meaning: 'The store is overloaded, or its database is unavailable.',
    httpStatuses: [503],
    ofField: true,
    repeat: 'with-backoff',
    retryAfter: 'sometimes',
  },
  UPSTREAM_UNAVAILABLE: {
    meaning: 'The store behind the gateway cannot be reached.',
    httpStatuses: [],
    ofField: true,
    repeat: 'with-backoff',
    retryAfter: 'never',
  },
  UPSTREAM_TIMEOUT: {
    meaning: 'The store behind the gateway did not respond in time. It may still have added an animal.',
    httpStatuses: [],
    ofField: true,
    repeat: 'with-backoff',
    retryAfter: 'never',
  },
  UPSTREAM_ERROR: {
    meaning: 'The store behind the gateway failed, or its response is invalid.',
    httpStatuses: [],
    ofField: true,
    repeat: 'with-backoff',
    retryAfter: 'sometimes',
  },
  INTERNAL_SERVER_ERROR: {
    meaning: 'Something unexpected went wrong in the store. Its log has the request id.',
    httpStatuses: [500],
    ofField: true,
    repeat: 'no',
    retryAfter: 'never',
  },
} as const satisfies Readonly<Record<string, StoreErrorInfo>>;

/** The values of `extensions.code`. */
export type StoreErrorCode = keyof typeof STORE_ERRORS;

/** The Error body that the store's REST interface sends for the same failure. */
export interface StoreErrorBody {
  readonly code: string;
  readonly message: string;
  readonly status: number;
}

/** The properties that only some errors have. */
interface Details {
  readonly RATE_LIMITED: {
    /** Seconds until the window resets. */
    readonly retryAfter: number;
    /** The cost of the refused operation; absent if the store refused the request before it knew the cost. */
    readonly cost?: number;
  };
  readonly KEY_BANNED: {
    /** Seconds until the ban ends. */
    readonly retryAfter: number;
  };
  readonly OPERATION_TOO_LARGE: {
    /** The cost of the operation. */
    readonly cost: number;
  };
  readonly SERVICE_UNAVAILABLE: {
    /** Seconds to wait before the next attempt. */
    readonly retryAfter?: number;
  };
  readonly UPSTREAM_ERROR: {
    /** Seconds to wait before the next attempt. */
    readonly retryAfter?: number;
  };
}

interface Shared<Code> {
  readonly code: Code;
  /** The id of the request, also in the `X-Request-Id` header and in the store's log. */
  readonly requestId: string;
  /** The Error body of REST; absent for errors that exist only in GraphQL. */
  readonly error?: StoreErrorBody;
}

/** The `extensions` of an error, as a union by `code`. */
export type StoreErrorExtensions<Code extends StoreErrorCode = StoreErrorCode> = {
  [C in Code]: Shared<C> & (C extends keyof Details ? Details[C] : unknown);
}[Code];

interface Place {
  /** Written for people. It may change, so decide by `code`. */
  readonly message: string;
  /** The response path of the field; absent if the store refused the whole operation. */
  readonly path?: readonly (string | number)[];
}

/** An error of the store: its `extensions`, message and path. Use `switch (error.code)` to distinguish them. */
export type StoreError = StoreErrorExtensions & Place;

/** An error that is not in this catalogue: it comes from a newer store, or from something in front of the store. */
export interface UnrecognizedError extends Place {
  readonly code: 'UNRECOGNIZED';
  /** The value of `extensions.code`. */
  readonly receivedCode?: string;
}

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
  if (Array.isArray(source))
    return source.flatMap((entry) => (isRecord(entry) && isResult(entry) ? listErrors(entry) : [entry]));
  if (!isRecord(source)) return [];
  const { errors, graphQLErrors, response, bodyText } = source;
  if (Array.isArray(errors)) return errors;
  if (Array.isArray(graphQLErrors)) return graphQLErrors;
  if (typeof bodyText === 'string') return listErrors(parseJson(bodyText));
  return isRecord(response) && Array.isArray(response.errors) ? response.errors : [];
}

/** Whether an entry of a list is a result of a batch, not an error. */
function isResult(entry: Readonly<Record<string, unknown>>): boolean {
  return 'errors' in entry || 'data' in entry;
}

/** Seconds to wait if an error that always has `retryAfter` arrives without it. */
const DEFAULT_RETRY_AFTER = 1;

function toError(raw: unknown): StoreError | UnrecognizedError {
  const { message, path, extensions } = isRecord(raw) ? raw : {};
  const place = {
    message: typeof message === 'string' ? message : 'The error has no message.',
    ...(Array.isArray(path) && { path: path as (string | number)[] }),
  };
  const { code, requestId, error, retryAfter, cost } = isRecord(extensions) ? extensions : {};
  if (!isStoreErrorCode(code)) {
    return { ...place, code: 'UNRECOGNIZED', ...(typeof code === 'string' && { receivedCode: code }) };
  }
  const wait =
    typeof retryAfter === 'number' && retryAfter >= 0
      ? retryAfter
      : STORE_ERRORS[code].retryAfter === 'always'
        ? DEFAULT_RETRY_AFTER
        : undefined;
  // TypeScript cannot check that the properties belong to the code.
  return {
    ...place,
    code,
    requestId: typeof requestId === 'string' ? requestId : '',
    ...(isErrorBody(error) && { error }),
    ...(wait !== undefined && { retryAfter: wait }),
    ...(typeof cost === 'number' && { cost }),
  } as StoreError;
}

function isErrorBody(value: unknown): value is StoreErrorBody {
  if (!isRecord(value)) return false;
  return typeof value.code === 'string' && typeof value.message === 'string' && typeof value.status === 'number';
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null;
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
