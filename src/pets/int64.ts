import { StoreError } from '../errors.js';

/** An int64 in canonical decimal: exact in text, where a JavaScript number would round it. */
export type Int64 = string & { readonly __int64: true };

const CANONICAL_DECIMAL = /^(?:0|-?[1-9]\d{0,18})$/;
const MAX = 9223372036854775807n;
const MIN = -9223372036854775808n;

/** Tells whether a text is a canonical decimal within int64. */
export function isInt64(text: string): text is Int64 {
  if (!CANONICAL_DECIMAL.test(text)) return false;
  if (text.length < 19) return true;
  const value = BigInt(text);
  return value >= MIN && value <= MAX;
}

/**
 * Takes an untrusted identifier.
 * @param text - the identifier as it arrived
 * @param name - how to call it in the error
 * @throws StoreError `invalid_request` naming what was expected and what came
 */
export function parseInt64(text: string, name: string): Int64 {
  if (isInt64(text)) return text;
  const shown = text.length > 40 ? `${text.slice(0, 40)}…` : text;
  throw new StoreError(
    'invalid_request',
    `${name} must be an int64 in canonical decimal (-9223372036854775808 to 9223372036854775807), got ${JSON.stringify(shown)}.`,
  );
}

/** Orders two identifiers by their values: below 0 when the first is the smaller one. */
export function compareInt64(a: Int64, b: Int64): number {
  const isNegative = a.startsWith('-');
  if (isNegative !== b.startsWith('-')) return isNegative ? -1 : 1;
  // Canonical decimals of one sign are ordered by their lengths, then as texts.
  const order = a.length - b.length || (a < b ? -1 : a > b ? 1 : 0);
  return isNegative ? -order : order;
}
