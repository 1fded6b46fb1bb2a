import { isStoreErrorCode, STORE_ERRORS, type StoreErrorInfo } from '../errors.js';
import type { PetErrorCode } from './pet-error.js';

/** How often one lookup is repeated for failures that may pass, refusals with a wait aside. */
export const MAX_REPEATS = 6;
/** Repeats that each operation earns: a server in trouble is asked little more for being in trouble. */
export const RETRY_SHARE = 0.2;
/** Repeats kept for a quiet time. */
export const RETRY_RESERVE = 10;

const FIRST_PAUSE_MS = 100;
const LONGEST_PAUSE_MS = 5_000;

/** Whether a lookup that failed so can be had by asking again. Lookups change nothing, so that is always safe. */
export function toRepeat(code: PetErrorCode): StoreErrorInfo['repeat'] {
  if (isStoreErrorCode(code)) return STORE_ERRORS[code].repeat;
  return code === 'CONNECTION_FAILED' || code === 'TIMED_OUT' ? 'with-backoff' : 'no';
}

/** The pause after so many troubles in a row: exponential, half of it random. */
export function growingPauseMs(troublesInARow: number): number {
  const longest = Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** (troublesInARow - 1));
  return longest * (0.5 + Math.random() / 2);
}
