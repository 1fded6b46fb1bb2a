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
  try {
    return parse(text, undefined, {
      parseNumber: (number) => new JsonNumber(number),
      onDuplicateKey: ({ key }) => {
        throw new StoreError('bad_request', `${subject} has the key ${JSON.stringify(key.slice(0, 100))} twice.`);
      },
    });
  } catch (error) {
    throw error instanceof StoreError ? error : new StoreError('bad_request', `${subject} is not valid JSON.`);
  }
}

function toExactNumber(text: string): number | JsonNumber {
  const number = Number(text);
  return Number.isSafeInteger(number) && String(number) === text ? number : new JsonNumber(text);
}
