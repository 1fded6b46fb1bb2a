import { randomUUID } from 'node:crypto';
import { StoreError } from '../errors.js';

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
 * @throws Error if the text is not JSON
 */
export function parseExactJson(text: string): unknown {
  return withExactNumbers(text, JSON.parse(text));
}

/**
 * Parses a client's JSON as `parseExactJson` does. It refuses repeated keys, because a proxy in front of this program
 * may use another of the values.
 * @param subject - the name of the text in the error message
 * @throws StoreError `bad_request` if the text is not JSON, has a repeated key or `__proto__`, nests too deeply or has
 * too many values
 */
export function parseUntrustedJson(text: string, subject: string): unknown {
  requireFewMembers(text, subject);
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    // V8 ends some messages with the text itself: `Unexpected token 'o', "nope" is not valid JSON`.
    const reason = (error as SyntaxError).message.replace(/, (?:\.{3})?".* is not valid JSON$/s, '');
    throw new StoreError('bad_request', `${subject} is not valid JSON: ${reason}.`);
  }
  const repeated = findRepeatedKey(text, requireSmallJson(value, subject));
  if (repeated !== undefined)
    throw new StoreError('bad_request', `${subject} has the key ${JSON.stringify(repeated.slice(0, 100))} twice.`);
  return withExactNumbers(text, value);
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

/** The most levels of nesting. An operation needs about five. */
const MAX_DEPTH = 100;
/** The most members and elements. A full batch of operations with 100 fields and their variables has about 8,000. */
const MAX_VALUES = 20_000;

/** Shorter texts are parsed without a look at them, in characters. */
const HARMLESS_LENGTH = 100_000;

/**
 * Refuses JSON with too many members before it is parsed: a megabyte of different keys takes `JSON.parse` some 80 ms.
 * @throws StoreError `bad_request`
 */
function requireFewMembers(text: string, subject: string): void {
  if (text.length < HARMLESS_LENGTH) return;
  let left = MAX_VALUES;
  for (const end = /"\s*:/g; end.test(text); left -= 1) if (left === 0) throw tooManyValues(subject);
}

function tooManyValues(subject: string): StoreError {
  return new StoreError('bad_request', `${subject} holds more than ${MAX_VALUES} values.`);
}

/**
 * Refuses parsed JSON that is nested too deeply, has too many values or has a key `__proto__`.
 * @returns the number of members of all objects
 * @throws StoreError `bad_request`
 */
function requireSmallJson(value: unknown, subject: string): number {
  let members = 0;
  let left = MAX_VALUES;
  visit(value, 0);
  return members;

  function visit(part: unknown, depth: number): void {
    if (typeof part !== 'object' || part === null) return;
    if (depth === MAX_DEPTH) throw new StoreError('bad_request', `${subject} nests deeper than ${MAX_DEPTH} levels.`);
    const names = Array.isArray(part) ? undefined : Object.keys(part);
    left -= names ? names.length : (part as readonly unknown[]).length;
    if (left < 0) throw tooManyValues(subject);
    if (!names) {
      for (const element of part as readonly unknown[]) visit(element, depth + 1);
      return;
    }
    members += names.length;
    for (const name of names) {
      if (name === '__proto__') throw new StoreError('bad_request', `${subject} has a key "__proto__".`);
      visit((part as Record<string, unknown>)[name], depth + 1);
    }
  }
}

/** A key with white space before its colon. Few programs write this. */
const SPACED_KEY = /"[ \t\r\n]+:/;
/** A string, with its colon if it is a key, or the beginning or end of an object. */
const KEY_OR_BRACE = /("[^"\\]*(?:\\.[^"\\]*)*")(\s*:)?|[{}]/g;

/**
 * Finds a repeated key in an object of a valid JSON text. Parsing hides this, because the last value wins.
 *
 * A count comes first, because it is fast. Every key ends in `":`. Only an escaped quote before a colon, inside a
 * string, looks the same. If no key has white space before its colon, and there are as many `":` as members, no key is
 * repeated.
 * @param members - the number of members of all parsed objects
 */
function findRepeatedKey(text: string, members: number): string | undefined {
  let count = 0;
  for (let at = text.indexOf('":'); at >= 0; at = text.indexOf('":', at + 2)) count += 1;
  if (count === members && !SPACED_KEY.test(text)) return undefined;
  const openObjects: Set<string>[] = [];
  for (const [token, string, colon] of text.matchAll(KEY_OR_BRACE)) {
    if (token === '{') openObjects.push(new Set());
    else if (token === '}') openObjects.pop();
    else if (string && colon) {
      const keys = openObjects.at(-1);
      const key = JSON.parse(string) as string;
      if (keys?.has(key)) return key;
      keys?.add(key);
    }
  }
  return undefined;
}
