/**
 * Every error of a request, with its HTTP status and its `extensions.code` in GraphQL. No other place pairs the two.
 * The status is that of REST, and of GraphQL if the whole request is refused.
 */
export const ERRORS = {
  unauthorized: { status: 401, graphqlCode: 'UNAUTHENTICATED' },
  forbidden: { status: 403, graphqlCode: 'FORBIDDEN' },
  invalid_request: { status: 400, graphqlCode: 'BAD_USER_INPUT' },
  idempotency_key_reused: { status: 422, graphqlCode: 'BAD_USER_INPUT' },
  not_found: { status: 404, graphqlCode: 'NOT_FOUND' },
  rate_limited: { status: 429, graphqlCode: 'RATE_LIMITED' },
  /** The limit of what a key may ask about itself, which is free. It does not count towards a ban. */
  field_rate_limited: { status: 429, graphqlCode: 'RATE_LIMITED', graphqlOnly: true, restCode: 'rate_limited' },
  rotation_under_way: { status: 409, graphqlCode: 'BAD_REQUEST' },
  key_banned: { status: 429, graphqlCode: 'KEY_BANNED' },
  upstream_unavailable: { status: 502, graphqlCode: 'UPSTREAM_UNAVAILABLE', graphqlOnly: true },
  upstream_timeout: { status: 504, graphqlCode: 'UPSTREAM_TIMEOUT', graphqlOnly: true },
  upstream_error: { status: 502, graphqlCode: 'UPSTREAM_ERROR', graphqlOnly: true },
  operation_unresolved: { status: 422, graphqlCode: 'OPERATION_RESOLUTION_FAILURE', graphqlOnly: true },
  operation_too_large: { status: 400, graphqlCode: 'OPERATION_TOO_LARGE', graphqlOnly: true },
  document_not_trusted: { status: 400, graphqlCode: 'DOCUMENT_NOT_TRUSTED', graphqlOnly: true },
  /** Something cannot be parsed. */
  bad_request: { status: 400, graphqlCode: 'BAD_REQUEST', graphqlOnly: true, restCode: 'invalid_request' },
  /** It can be parsed, but is not a GraphQL request that can be served. */
  unprocessable_request: { status: 422, graphqlCode: 'BAD_REQUEST', graphqlOnly: true },
  no_such_route: { status: 404, graphqlCode: 'BAD_REQUEST', restCode: 'not_found' },
  request_timeout: { status: 408, graphqlCode: 'BAD_REQUEST' },
  method_not_allowed: { status: 405, graphqlCode: 'BAD_REQUEST' },
  not_acceptable: { status: 406, graphqlCode: 'BAD_REQUEST' },
  payload_too_large: { status: 413, graphqlCode: 'BAD_REQUEST' },
  uri_too_long: { status: 414, graphqlCode: 'BAD_REQUEST' },
  headers_too_large: { status: 431, graphqlCode: 'BAD_REQUEST' },
  unsupported_media_type: { status: 415, graphqlCode: 'BAD_REQUEST' },
  overloaded: { status: 503, graphqlCode: 'SERVICE_UNAVAILABLE' },
  unavailable: { status: 503, graphqlCode: 'SERVICE_UNAVAILABLE' },
  internal_error: { status: 500, graphqlCode: 'INTERNAL_SERVER_ERROR' },
} as const satisfies Record<string, ErrorRow>;

interface ErrorRow {
  readonly status: number;
  readonly graphqlCode: string;
  /** True for an error that REST does not have. GraphQL then sends it without an Error body. */
  readonly graphqlOnly?: true;
  /** The `code` in REST, if it is that of another error. */
  readonly restCode?: string;
}

export type ErrorName = keyof typeof ERRORS;

/** The Error body of the interface document. */
export interface ErrorBody {
  readonly code: string;
  readonly message: string;
  readonly status: number;
}

interface StoreErrorDetails {
  /** Seconds to wait before a retry, sent as `Retry-After` and `extensions.retryAfter`. */
  readonly retryAfter?: number;
  /** The cost of the refused operation, in requests. */
  readonly cost?: number;
  /** Headers of the response, such as `Allow` or `WWW-Authenticate`. */
  readonly headers?: Readonly<Record<string, string>>;
  /** The upstream's Error body, which clients receive unchanged. */
  readonly body?: ErrorBody;
  /** True for an error that REST does not have. By default, what the table says of its code. */
  readonly graphqlOnly?: boolean;
  readonly cause?: unknown;
}

/** The error of a request. Its message is safe to send. `RequestErrors` in graphql/ refuses a document with several. */
export class StoreError extends Error {
  override readonly name = 'StoreError';

  constructor(
    readonly code: ErrorName,
    message: string,
    readonly details: StoreErrorDetails = {},
  ) {
    // A stack takes most of the time of an error, a batch may have two thousand, and nobody looks at it.
    const { stackTraceLimit } = Error;
    Error.stackTraceLimit = 0;
    // What a message quotes may be cut in the middle of a character.
    super(message.toWellFormed(), { cause: details.cause });
    Error.stackTraceLimit = stackTraceLimit;
  }

  get status(): number {
    return ERRORS[this.code].status;
  }

  /** The code in REST, if the error is this program's own. */
  get restCode(): string {
    const { restCode = this.code }: ErrorRow = ERRORS[this.code];
    return restCode;
  }

  get retryAfter(): number | undefined {
    return this.details.retryAfter;
  }

  get headers(): Readonly<Record<string, string>> {
    const { headers = {}, retryAfter } = this.details;
    return retryAfter === undefined ? headers : { ...headers, 'Retry-After': String(retryAfter) };
  }
}

/** Returns the Error body that REST sends. */
export function toErrorBody({ restCode, message, status, details }: StoreError): ErrorBody {
  return details.body ?? { code: restCode, message, status };
}

export function overloaded(headers?: Record<string, string>): StoreError {
  return new StoreError('overloaded', 'The store is overloaded. Try again shortly.', { retryAfter: 1, headers });
}

/** Converts a thrown value to a StoreError. An unknown error gets one fixed message, which leaks nothing. */
export function toStoreError(thrown: unknown): StoreError {
  return thrown instanceof StoreError
    ? thrown
    : new StoreError('internal_error', 'Something went wrong on our side.', { cause: thrown });
}
