import { parse } from 'lossless-json';
import { StoreError } from '../errors.js';
import { findRepeatedKey, hasRepeatedKey, requireFewMembers, requireSmallJson } from './json-limits.js';

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
 * a bracket. A match inside a string only means that the slower parser is used, with the same result.
 */
const INEXACT_NUMBER = /(?:^|[:,[])\s*-?(?:\d{16}|\d+[.eE]|(?<=-)0)/;

/**
 * Parses JSON without rounding numbers. Each number becomes a JavaScript number if that is exact and has the same text,
 * and a `JsonNumber` otherwise.
 * @param subject - the name of the text in the error message
 * @throws StoreError `bad_request` if the text is not JSON
 */
export function parseExactJson(text: string, subject: string): unknown {
  try {
    return INEXACT_NUMBER.test(text) ? parse(text, undefined, toExactNumber) : JSON.parse(text);
  } catch {
    throw notJson(subject);
  }
}

/**
 * Parses a client's JSON as `parseExactJson` does. It refuses repeated keys, because a proxy in front of this program
 * may use another of the values.
 * @throws StoreError `bad_request` if the text is not JSON, has a repeated key or exceeds the JSON limits
 */
export function parseUntrustedJson(text: string, subject: string): unknown {
  const value = parseJson(text, subject);
  const { members, hasNumber, hasUnsafeNumber } = requireSmallJson(value, subject);
  if (hasRepeatedKey(text, members)) throw keyTwice(subject, findRepeatedKey(text));
  if (!hasNumber || !INEXACT_NUMBER.test(text)) return value;
  if (text.length <= MAX_EXACT_LENGTH) return parse(text, undefined, toExactNumber);
  if (hasUnsafeNumber) throw tooLongForExactNumbers(subject);
  return value;
}

/** The parser that keeps numbers exact takes some 25 ms for this many characters. */
const MAX_EXACT_LENGTH = 131_072;

function tooLongForExactNumbers(subject: string): StoreError {
  return new StoreError(
    'bad_request',
    `${subject} has a fraction or a number of more than 15 digits, and more than ${MAX_EXACT_LENGTH} characters: send ` +
      'such numbers as strings.',
  );
}

/** Shorter texts are safe to parse at any nesting, in characters. */
const HARMLESS_LENGTH = 10_000;

/**
 * Parses JSON and keeps the text of every number. It refuses repeated keys.
 * @throws StoreError `bad_request` if the text is not JSON, has a repeated key or exceeds the JSON limits
 */
export function parseStrictJson(text: string, subject: string): unknown {
  if (text.length > HARMLESS_LENGTH) requireSmallJson(parseJson(text, subject), subject);
  if (text.length > MAX_EXACT_LENGTH)
    throw new StoreError('bad_request', `${subject} is longer than ${MAX_EXACT_LENGTH} characters.`);
  const value = parseWithNumbersAsWritten(text, subject);
  const repeated = findRepeatedKey(text);
  if (repeated !== undefined) throw keyTwice(subject, repeated);
  return value;
}

function parseJson(text: string, subject: string): unknown {
  requireFewMembers(text, subject);
  try {
    return JSON.parse(text);
  } catch {
    throw notJson(subject);
  }
}

function parseWithNumbersAsWritten(text: string, subject: string): unknown {
  try {
    return parse(text, undefined, {
      parseNumber: (number) => new JsonNumber(number),
      onDuplicateKey: ({ newValue }) => newValue,
    });
  } catch {
    throw notJson(subject);
  }
}

function notJson(subject: string): StoreError {
  return new StoreError('bad_request', `${subject} is not valid JSON.`);
}

function keyTwice(subject: string, key = ''): StoreError {
  return new StoreError('bad_request', `${subject} has the key ${JSON.stringify(key.slice(0, 100))} twice.`);
}

function toExactNumber(text: string): number | JsonNumber {
  const number = Number(text);
  return Number.isSafeInteger(number) && String(number) === text ? number : new JsonNumber(text);
}
