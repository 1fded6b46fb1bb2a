import { isStoreErrorCode, STORE_ERRORS, type StoreError, type UnrecognizedError } from './errors.js';

/** A failure that has no response of the store. */
interface ClientFailure {
  readonly code: 'CONNECTION_FAILED' | 'TIMED_OUT';
  readonly message: string;
}

type Failure = StoreError | UnrecognizedError | ClientFailure;

/** Why a call failed: an `Error` with the properties of a store error. Use `switch (error.code)`. */
export type PetError = Error & Failure;

/** Whether a value is an error of the client. Its methods throw nothing else, except the reason of an aborted signal. */
export function isPetError(value: unknown): value is PetError {
  return value instanceof Error && value.name === 'PetError';
}

export function createPetError({ message, ...rest }: Failure, cause?: unknown) {
  return Object.assign(new Error(message, { cause }), { name: 'PetError' }, rest) as PetError;
}

export function badInput(message: string): PetError {
  return createPetError({ code: 'BAD_USER_INPUT', message, requestId: '' });
}

/**
 * Creates the error of a call that the client gives up. It says how long the call waited.
 * @param moreMs - how long it would have to wait, if `maxWaitMs` does not allow that
 */
export function toFinalError(failure: PetError, waitedMs: number, moreMs = 0, maxWaitMs = 0): PetError {
  const { code, message } = failure;
  // The store's own message may be older, and state the time that was left then.
  const reason = moreMs && isStoreErrorCode(code) ? STORE_ERRORS[code].meaning : message;
  const more = moreMs && ` and would have to wait ${toSeconds(moreMs)} s more, but maxWaitMs is ${maxWaitMs}`;
  return createPetError(
    {
      ...(failure as Failure),
      ...(moreMs && 'retryAfter' in failure && { retryAfter: Math.ceil(moreMs / 1_000) }),
      message: `${reason} The call waited ${toSeconds(waitedMs)} s${more || ''}.`,
    },
    failure,
  );
}

/** Rounds up to one decimal place. */
function toSeconds(ms: number): number {
  return Math.ceil(ms / 100) / 10;
}
