import { parse } from 'lossless-json';
import { StoreError } from '../errors.js';
import { findRepeatedKey, hasRepeatedKey, requireSmallJson } from './json-limits.js';

/** A JSON number as it was written, where a JavaScript number would round it or hide how it was written. */
export class JsonNumber {
  constructor(readonly text: string) {}

  toString(): string {
    return this.text;
  }

  /** How the number stands in messages that quote it. */
  toJSON(): number {
    return Number(this.text);
  }
}

/**
 * A number of more than 15 digits, a fraction, an exponent or a negative zero. A number follows a colon, a comma or a
 * bracket. The same can stand in a string, which costs time but does no harm.
 */
const INEXACT_NUMBER = /(?:^|[:,[])\s*-?(?:\d{16}|\d+[.eE]|(?<=-)0)/;

/**
 * Parses JSON without losing a digit: numbers are JavaScript numbers when those are exact and written plainly,
 * `JsonNumber`s otherwise.
 * @param subject - how to call the text in the error
 * @throws StoreError `bad_request` when the text is not JSON
 */
export function parseExactJson(text: string, subject: string): unknown {
  try {
    return INEXACT_NUMBER.test(text) ? parse(text, undefined, toExactNumber) : JSON.parse(text);
  } catch {
    throw notJson(subject);
  }
}

/**
 * Parses JSON of a client, as `parseExactJson` does. An object that has a key twice is refused: it may mean something else to
 * whoever looked at it before.
 * @throws StoreError `bad_request` when the text is not JSON, or means harm
 */
export function parseUntrustedJson(text: string, subject: string): unknown {
  const value = parseJson(text, subject);
  const { members, hasNumber } = requireSmallJson(value, subject);
  if (hasRepeatedKey(text, members)) throw keyTwice(subject, findRepeatedKey(text));
  return hasNumber && INEXACT_NUMBER.test(text) ? parse(text, undefined, toExactNumber) : value;
}

/** Texts that are shorter can do no harm, however they are nested. */
const HARMLESS_LENGTH = 10_000;

/**
 * Parses JSON with every number as it was written, refusing an object that has a key twice.
 * @throws StoreError `bad_request` when the text is not JSON, or means harm
 */
export function parseStrictJson(text: string, subject: string): unknown {
  if (text.length > HARMLESS_LENGTH) requireSmallJson(parseJson(text, subject), subject);
  const value = parseWithNumbersAsWritten(text, subject);
  const repeated = findRepeatedKey(text);
  if (repeated !== undefined) throw keyTwice(subject, repeated);
  return value;
}

function parseJson(text: string, subject: string): unknown {
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
