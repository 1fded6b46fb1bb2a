import type { StoreErrorBody, StoreErrorCode } from '../errors.js';

/**
 * Why an animal cannot be had: a code of the store, or one of the client's own. `INVALID_ID`: the id is no int64, and was
 * not asked for. `CONNECTION_FAILED`: no connection, or it broke. `TIMED_OUT`: no answer within `timeoutMs`.
 * `UNRECOGNIZED`: the answer is not one of an animal store.
 */
export type PetErrorCode = StoreErrorCode | 'INVALID_ID' | 'CONNECTION_FAILED' | 'TIMED_OUT' | 'UNRECOGNIZED';

/** What went wrong, before it is known for which ids. */
export interface Failure {
  readonly code: PetErrorCode;
  readonly message: string;
  /** Seconds to wait before asking again. */
  readonly retryAfter?: number | undefined;
  readonly requestId?: string | undefined;
  readonly error?: StoreErrorBody | undefined;
  readonly cause?: unknown;
}

/** The error of one id. */
export class PetError extends Error {
  override readonly name = 'PetError';
  readonly code: PetErrorCode;
  /** Seconds to wait before asking again; with `RATE_LIMITED` and `KEY_BANNED`, and sometimes others. */
  readonly retryAfter: number | undefined;
  /** The request's id, which the store's log has too; absent when the store was not asked or did not answer. */
  readonly requestId: string | undefined;
  /** The Error body that the store's REST interface has for this. */
  readonly error: StoreErrorBody | undefined;

  constructor(
    { code, message, retryAfter, requestId, error, cause }: Failure,
    /** The id that was asked for. */
    readonly id: string,
  ) {
    super(message, { cause });
    this.code = code;
    this.retryAfter = retryAfter;
    this.requestId = requestId;
    this.error = error;
  }
}
