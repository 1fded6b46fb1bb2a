import { isInt64, type Int64 } from '../../pets/int64.js';
import { PetError } from './pet-error.js';

/** An animal's id: an int64 in canonical decimal, or as a bigint, or as a number that is exact. */
export type PetId = string | bigint | number;

/** Takes an id as the application has it; an error for what is no int64, or may have been rounded. */
export function toLookupId(given: PetId): Int64 | PetError {
  const isExact = typeof given === 'string' || typeof given === 'bigint' || Number.isSafeInteger(given);
  const text = String(given);
  if (isExact && isInt64(text)) return text;
  const shown = text.length > 40 ? `${text.slice(0, 40)}…` : text;
  const expected = 'an int64: in canonical decimal, as a bigint, or as a number up to 2^53 − 1';
  const kind = typeof given === 'string' ? JSON.stringify(shown) : `the ${typeof given} ${shown}`;
  return new PetError({ code: 'INVALID_ID', message: `The id must be ${expected}, got ${kind}.` }, shown);
}
