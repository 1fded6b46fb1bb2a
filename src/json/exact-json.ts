import { parse } from 'lossless-json';
import { StoreError } from '../errors.js';

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

/** JSON could hold a number of more than 15 digits, a fraction, an exponent or a negative zero. */
const MAY_HOLD_INEXACT_NUMBER = /\d{16}|\d[.eE]|-0/;

/**
 * Parses JSON without losing a digit: numbers are JavaScript numbers when those are exact and written plainly,
 * `JsonNumber`s otherwise.
 * @param subject - how to call the text in the error
 * @throws StoreError `bad_request` when the text is not JSON
 */
export function parseExactJson(text: string, subject: string): unknown {
  try {
    return MAY_HOLD_INEXACT_NUMBER.test(text) ? parse(text, undefined, toExactNumber) : JSON.parse(text);
  } catch {
    throw new StoreError('bad_request', `${subject} is not valid JSON.`);
  }
}

/**
 * Parses JSON with every number as it was written, refusing an object that has a key twice.
 * @throws StoreError `bad_request` when the text is not JSON
 */
export function parseStrictJson(text: string, subject: string): unknown {
  const value = parseWithNumbersAsWritten(text, subject);
  const repeated = findRepeatedKey(text);
  if (repeated === undefined) return value;
  throw new StoreError('bad_request', `${subject} has the key ${JSON.stringify(repeated.slice(0, 100))} twice.`);
}

function parseWithNumbersAsWritten(text: string, subject: string): unknown {
  try {
    return parse(text, undefined, {
      parseNumber: (number) => new JsonNumber(number),
      onDuplicateKey: ({ newValue }) => newValue,
    });
  } catch {
    throw new StoreError('bad_request', `${subject} is not valid JSON.`);
  }
}

/** What ends a string, a key or an object; an escape is taken whole, so that an escaped quote ends nothing. */
const MARKS = /\\.|["{}:]/g;

/** Finds a key that an object of a valid JSON text has twice: the parser lets it pass when both values are equal. */
function findRepeatedKey(text: string): string | undefined {
  const openObjects: Set<string>[] = [];
  let stringStart: number | undefined;
  let lastString = '';
  for (const { 0: mark, index } of text.matchAll(MARKS)) {
    if (stringStart !== undefined) {
      if (mark !== '"') continue;
      lastString = text.slice(stringStart, index + 1);
      stringStart = undefined;
    } else if (mark === '"') {
      stringStart = index;
    } else if (mark === '{') {
      openObjects.push(new Set());
    } else if (mark === '}') {
      openObjects.pop();
    } else {
      const keys = openObjects.at(-1);
      const key = JSON.parse(lastString) as string;
      if (keys?.has(key)) return key;
      keys?.add(key);
    }
  }
  return undefined;
}

function toExactNumber(text: string): number | JsonNumber {
  const number = Number(text);
  return Number.isSafeInteger(number) && String(number) === text ? number : new JsonNumber(text);
}
