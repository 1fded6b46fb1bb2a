import { randomUUID } from 'node:crypto';
import { StoreError } from '../errors.js';
import { findRepeatedKey, requireFewMembers, requireSmallJson } from './json-limits.js';

/** The text of a JSON number that a JavaScript number would round or write differently. */
export class JsonNumber {
  constructor(readonly text: string) {}

  toString(): string {
    return this.text;
  }

  /** The number in JSON, for messages that quote it. It may be rounded. */
  toJSON(): number {
    return Number(this.text);
  }
}

/**
 * A number with more than 15 digits, a fraction, an exponent or a negative zero. A number follows a colon, a comma or
 * a bracket. A match inside a string only means that the text is parsed twice, with the same result.
 */
const INEXACT_NUMBER = /(?:^|[:,[])\s*-?(?:\d{16}|\d+[.eE]|(?<=-)0)/;

/**
 * Parses JSON without rounding numbers. An integer of at most 15 digits becomes a JavaScript number, and
 * every other number a `JsonNumber`.
 * @param subject - the name of the text in the error message
 * @throws StoreError `bad_request` if the text is not JSON
 */
export function parseExactJson(text: string, subject: string): unknown {
  try {
    return withExactNumbers(text, JSON.parse(text));
  } catch {
    throw new StoreError('bad_request', `${subject} is not valid JSON.`);
  }
}

/**
 * Parses a client's JSON as `parseExactJson` does. It refuses repeated keys, because a proxy in front of this program
 * may use another of the values.
 * @throws StoreError `bad_request` if the text is not JSON, has a repeated key or exceeds the JSON limits
 */
export function parseUntrustedJson(text: string, subject: string): unknown {
  const value = parseJson(text, subject);
  const repeated = findRepeatedKey(text, requireSmallJson(value, subject));
  if (repeated !== undefined)
    throw new StoreError('bad_request', `${subject} has the key ${JSON.stringify(repeated.slice(0, 100))} twice.`);
  return withExactNumbers(text, value);
}

function parseJson(text: string, subject: string): unknown {
  requireFewMembers(text, subject);
  try {
    return JSON.parse(text);
  } catch (error) {
    // V8 ends some messages with the text itself: `Unexpected token 'o', "nope" is not valid JSON`.
    const reason = (error as SyntaxError).message.replace(/, (?:\.{3})?".* is not valid JSON$/s, '');
    throw new StoreError('bad_request', `${subject} is not valid JSON: ${reason}.`);
  }
}

/** A string or a number. */
const TOKEN = /"[^"\\]*(?:\\.[^"\\]*)*"|-?\d[\d.eE+-]*/g;
const EXACT_NUMBER = /^(?:0|-?[1-9]\d{0,14})$/;
/** Begins the string that stands for an inexact number. No client can know it. */
const MARK = randomUUID();

/** @param value - the text as `JSON.parse` returns it, with rounded numbers */
function withExactNumbers(text: string, value: unknown): unknown {
  if (!INEXACT_NUMBER.test(text)) return value;
  const isExact = (token: string): boolean => token.startsWith('"') || EXACT_NUMBER.test(token);
  return unmark(JSON.parse(text.replace(TOKEN, (token) => (isExact(token) ? token : `"${MARK}${token}"`))));
}

/** A reviver of `JSON.parse` would take several times as long. */
function unmark(value: unknown): unknown {
  if (typeof value === 'string') return value.startsWith(MARK) ? new JsonNumber(value.slice(MARK.length)) : value;
  if (typeof value !== 'object' || value === null) return value;
  if (Array.isArray(value)) return value.map(unmark);
  return Object.fromEntries(Object.entries(value).map(([name, part]) => [name, unmark(part)]));
}
