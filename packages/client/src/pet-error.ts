import type { StoreError, UnrecognizedError } from './errors.js';

/** A failure that has no response of the store. `BEYOND_LISTS` occurs with the option `getFromLists`. */
interface ClientFailure {
  readonly code: 'CONNECTION_FAILED' | 'TIMED_OUT' | 'BEYOND_LISTS';
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
