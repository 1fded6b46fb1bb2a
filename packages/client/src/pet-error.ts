import type { StoreErrorBody, StoreErrorCode } from './errors.js';

/**
 * Why a lookup failed: a code of the store, or one of the client's own.
 *
 * - `INVALID_ID`: the id is not an int64. The client did not send it.
 * - `CONNECTION_FAILED`: the client could not connect, or the connection broke.
 * - `TIMED_OUT`: no response within `timeoutMs`.
 * - `UNRECOGNIZED`: the response does not come from an animal store, or from a newer one.
 */
export type PetErrorCode = StoreErrorCode | 'INVALID_ID' | 'CONNECTION_FAILED' | 'TIMED_OUT' | 'UNRECOGNIZED';

/** What went wrong, without the id. */
export interface Failure {
  readonly code: PetErrorCode;
  readonly message: string;
  readonly retryAfter?: number | undefined;
  readonly requestId?: string | undefined;
  readonly error?: StoreErrorBody | undefined;
  readonly cause?: unknown;
}

/** Why one animal could not be looked up. */
export class PetError extends Error {
  override readonly name = 'PetError';
  readonly code: PetErrorCode;
  /** Seconds to wait before the next attempt. Always set for `RATE_LIMITED` and `KEY_BANNED`, sometimes for others. */
  readonly retryAfter: number | undefined;
  /** The id of the request, also in the store's log. Absent if the store was not asked or did not respond. */
  readonly requestId: string | undefined;
  /** The Error body that the store's REST interface sends in this case. */
  readonly error: StoreErrorBody | undefined;

  constructor(
    { code, message, retryAfter, requestId, error, cause }: Failure,
    /** The id that was looked up. */
    readonly id: string,
  ) {
    super(message, { cause });
    this.code = code;
    this.retryAfter = retryAfter;
    this.requestId = requestId;
    this.error = error;
  }
}
