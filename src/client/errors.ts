/**
 * Every error that the animal store's GraphQL endpoint gives, for clients: what each code means, and what to do about it.
 * It runs in browsers as in Node, and imports nothing.
 */

/** What is to be known of an error code. */
export interface StoreErrorInfo {
  /** What has happened, for developers. */
  readonly meaning: string;
  /**
   * The HTTP statuses of an answer that is this error as a whole, without `data`. Empty: it is always the error of a field,
   * and those never change the status of an answer.
   */
  readonly httpStatuses: readonly number[];
  /** Whether it can be the error of one field, beside the data of others. */
  readonly ofField: boolean;
  /**
   * Whether the same request can succeed when it is sent again: `no`; `after-wait`, once `retryAfter` is over; or
   * `with-backoff`, after `retryAfter` where there is one, else after growing pauses.
   */
  readonly repeat: 'no' | 'after-wait' | 'with-backoff';
  /** Whether `retryAfter` goes with it. */
  readonly retryAfter: 'always' | 'sometimes' | 'never';
}

/** The catalogue: every code with what is to be known of it. */
export const STORE_ERRORS = {
  UNAUTHENTICATED: {
    meaning: 'The key is missing, unknown, revoked or expired.',
    httpStatuses: [401],
    ofField: true,
    repeat: 'no',
    retryAfter: 'never',
  },
  BAD_USER_INPUT: {
    meaning:
      'An argument or a variable is missing or breaks a rule, or an Idempotency-Key was used before for something else.',
    httpStatuses: [400],
    ofField: true,
    repeat: 'no',
    retryAfter: 'never',
  },
  NOT_FOUND: {
    meaning: 'There is no such animal.',
    httpStatuses: [],
    ofField: true,
    repeat: 'no',
    retryAfter: 'never',
  },
  RATE_LIMITED: {
    meaning: "A window of the key's plan, or of the client's address, is used up.",
    httpStatuses: [429],
    ofField: true,
    repeat: 'after-wait',
    retryAfter: 'always',
  },
  KEY_BANNED: {
    meaning: 'The key went on asking beyond its limit and is banned for a while.',
    httpStatuses: [429],
    ofField: true,
    repeat: 'after-wait',
    retryAfter: 'always',
  },
  OPERATION_TOO_LARGE: {
    meaning: "The operation costs more than a window of the key's plan can ever hold: split it.",
    httpStatuses: [400],
    ofField: false,
    repeat: 'no',
    retryAfter: 'never',
  },
  BAD_REQUEST: {
    meaning: 'The request is not one that the endpoint takes: its form, path, method, size or media type is wrong.',
    httpStatuses: [400, 404, 405, 406, 413, 415, 431],
    ofField: false,
    repeat: 'no',
    retryAfter: 'never',
  },
  GRAPHQL_PARSE_FAILED: {
    meaning: 'The document is not GraphQL.',
    httpStatuses: [400],
    ofField: false,
    repeat: 'no',
    retryAfter: 'never',
  },
  GRAPHQL_VALIDATION_FAILED: {
    meaning: 'The document asks for what the schema does not have.',
    httpStatuses: [400],
    ofField: false,
    repeat: 'no',
    retryAfter: 'never',
  },
  OPERATION_RESOLUTION_FAILURE: {
    meaning: 'The document has several operations and operationName names none of them.',
    httpStatuses: [400],
    ofField: false,
    repeat: 'no',
    retryAfter: 'never',
  },
  PERSISTED_QUERY_NOT_FOUND: {
    meaning: 'The hash of a persisted query is not known here: send the document with it once.',
    httpStatuses: [200],
    ofField: false,
    repeat: 'no',
    retryAfter: 'never',
  },
  SERVICE_UNAVAILABLE: {
    meaning: 'The store is overloaded, or its database is away.',
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
    meaning: 'The store behind the gateway did not answer in time; an addPet may have been done all the same.',
    httpStatuses: [],
    ofField: true,
    repeat: 'with-backoff',
    retryAfter: 'never',
  },
  UPSTREAM_ERROR: {
    meaning: 'The store behind the gateway failed, or answered what its interface does not allow.',
    httpStatuses: [],
    ofField: true,
    repeat: 'with-backoff',
    retryAfter: 'sometimes',
  },
  INTERNAL_SERVER_ERROR: {
    meaning: 'Something unforeseen went wrong in the store; its log has the request id.',
    httpStatuses: [500],
    ofField: true,
    repeat: 'no',
    retryAfter: 'never',
  },
} as const satisfies Readonly<Record<string, StoreErrorInfo>>;

/** What `extensions.code` can be. */
export type StoreErrorCode = keyof typeof STORE_ERRORS;

/** The Error body that the store's REST interface has for the same failure. */
export interface StoreErrorBody {
  readonly code: string;
  readonly message: string;
  readonly status: number;
}

/** What some errors say beyond what all do. */
interface Details {
  readonly RATE_LIMITED: {
    /** Seconds until the window is open again. */
    readonly retryAfter: number;
    /** What the refused operation would have cost; absent when no operation was priced. */
    readonly cost?: number;
  };
  readonly KEY_BANNED: {
    /** Seconds until the ban ends. */
    readonly retryAfter: number;
  };
  readonly OPERATION_TOO_LARGE: {
    /** What the operation would have cost. */
    readonly cost: number;
  };
  readonly SERVICE_UNAVAILABLE: {
    /** Seconds to wait before asking again. */
    readonly retryAfter?: number;
  };
  readonly UPSTREAM_ERROR: {
    /** Seconds to wait before asking again. */
    readonly retryAfter?: number;
  };
}

interface Shared<Code> {
  readonly code: Code;
  /** The request's id, which the `X-Request-Id` header and the store's log have too. */
  readonly requestId: string;
  /** The Error body of REST; absent for errors that exist in GraphQL alone. */
  readonly error?: StoreErrorBody;
}

/** The `extensions` of an error, told apart by their `code`. */
export type StoreErrorExtensions<Code extends StoreErrorCode = StoreErrorCode> = {
  [C in Code]: Shared<C> & (C extends keyof Details ? Details[C] : unknown);
}[Code];

interface Place {
  /** Written for people; not to be told apart by. */
  readonly message: string;
  /** The response path of the field; absent when the operation was refused as a whole. */
  readonly path?: readonly (string | number)[];
}

/** An error of the store: its `extensions` with its message and its place. `switch (error.code)` tells them apart. */
export type StoreError = StoreErrorExtensions & Place;

/** An error that is not in this catalogue: of a newer store, or of something before it. */
export interface UnrecognizedError extends Place {
  readonly code: 'UNRECOGNIZED';
  /** What `extensions.code` was. */
  readonly receivedCode?: string;
}

/** Tells whether a value is a code of the catalogue. */
export function isStoreErrorCode(value: unknown): value is StoreErrorCode {
  return typeof value === 'string' && Object.hasOwn(STORE_ERRORS, value);
}

/**
 * Collects the errors of an answer, whatever client it came by.
 * @param answer - a GraphQL result, a list of GraphQL errors, or what a client threw: Apollo Client's `CombinedGraphQLErrors`
 *   and `ServerError`, urql's `CombinedError`, graphql-request's `ClientError`
 * @returns the errors in their order; empty when there are none, a failure to connect included
 */
export function toStoreErrors(answer: unknown): readonly (StoreError | UnrecognizedError)[] {
  return listErrors(answer).map(toError);
}

function listErrors(answer: unknown): readonly unknown[] {
  if (Array.isArray(answer))
    return answer.flatMap((entry) => (isRecord(entry) && isResult(entry) ? listErrors(entry) : [entry]));
  if (!isRecord(answer)) return [];
  const { errors, graphQLErrors, response, bodyText } = answer;
  if (Array.isArray(errors)) return errors;
  if (Array.isArray(graphQLErrors)) return graphQLErrors;
  if (typeof bodyText === 'string') return listErrors(parseJson(bodyText));
  return isRecord(response) && Array.isArray(response.errors) ? response.errors : [];
}

/** Tells a whole result of a batch from an error. */
function isResult(entry: Readonly<Record<string, unknown>>): boolean {
  return 'errors' in entry || 'data' in entry;
}

/** Seconds to wait where an error that always has a wait came without. */
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
  // The details are those of the code, which the types of a literal cannot follow.
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
