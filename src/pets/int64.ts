import { StoreError } from '../errors.js';
import { quote } from '../json/exact-json.js';

/** An int64 in canonical decimal. A JavaScript number would round it. */
export type Int64 = string & { readonly __int64: true };

const CANONICAL_DECIMAL = /^(?:0|-?[1-9]\d{0,18})$/;
export const INT64_RULE =
  'must be a whole number such as 42 in plain digits, from -9223372036854775808 to 9223372036854775807';

export function isInt64(text: string): text is Int64 {
  if (!CANONICAL_DECIMAL.test(text)) return false;
  return text.length < 19 || String(BigInt.asIntN(64, BigInt(text))) === text;
}

/**
 * @param name - the name of the value in the error message
 * @throws StoreError `invalid_request`
 */
export function parseInt64(text: string, name: string): Int64 {
  if (isInt64(text)) return text;
  throw new StoreError('invalid_request', `${name} ${INT64_RULE}, got ${quote(text)}.`);
}

export function compareInt64(a: Int64, b: Int64): number {
  const isNegative = a.startsWith('-');
  if (isNegative !== b.startsWith('-')) return isNegative ? -1 : 1;
  // The longer number has the larger magnitude; equal lengths compare as text.
  const order = a.length - b.length || (a < b ? -1 : Number(a > b));
  return isNegative ? -order : order;
}
