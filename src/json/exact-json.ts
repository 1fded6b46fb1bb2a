import { isUtf8 } from 'node:buffer';
import { randomUUID } from 'node:crypto';
import { redact } from '../access/api-key.js';
import { StoreError } from '../errors.js';

/** The text of a JSON number that a JavaScript number would round or write differently. */
export class JsonNumber {
  constructor(readonly text: string) {}

  toString(): string {
    return this.text;
  }

  /** For messages. It may be rounded. */
  toJSON(): number {
    return Number(this.text);
  }
}

/** The most levels of nesting. An operation needs about five. */
const MAX_DEPTH = 100;
/** The most members and elements. A full batch of operations with 100 fields and their variables has about 8,000. */
const MAX_VALUES = 20_000;

/**
 * Parses JSON without rounding numbers. An integer of at most 15 digits becomes a JavaScript number, and
 * every other number a `JsonNumber`.
 * @throws Error if the text is not JSON, or has too many of the latter
 */
export function parseExactJson(text: string): unknown {
  const { inexact } = scan(text);
  if (inexact.length > 2 * MAX_VALUES) throw new RangeError(`more than ${MAX_VALUES} numbers are not exact`);
  return withExactNumbers(text, JSON.parse(text), inexact);
}

/** How messages speak of the body as a whole. */
export const BODY = 'The request body';

/**
 * Parses the body of a request. A byte order mark before it is ignored.
 * @param example - a body to send instead of an empty one
 * @throws StoreError `bad_request` if it is not JSON in UTF-8
 */
export function parseJsonBody(body: Buffer, example: string, maxValues?: number): unknown {
  if (!isUtf8(body)) throw new StoreError('bad_request', `${BODY} must be JSON in UTF-8; these bytes are not UTF-8.`);
  if (body.length === 0) throw new StoreError('bad_request', `${BODY} is empty: send ${example}.`);
  return parseUntrustedJson(body.toString('utf8').replace(/^\uFEFF/, ''), BODY, maxValues);
}

/**
 * Parses a client's JSON as `parseExactJson` does. It refuses repeated keys, because a proxy in front of this program
 * may use another of the values.
 * @param subject - the name of the text in the error message
 * @throws StoreError `bad_request` if the text is not JSON, has a repeated key or `__proto__`, nests too deeply or has
 * too many values
 */
export function parseUntrustedJson(text: string, subject: string, maxValues = MAX_VALUES): unknown {
  const { depth, members, separators, inexact } = scan(text);
  if (depth > MAX_DEPTH) throw new StoreError('bad_request', `${subject} nests deeper than ${MAX_DEPTH} levels.`);
  if (Math.max(members, separators + 1) > maxValues) {
    throw new StoreError('bad_request', `${subject} holds more than ${maxValues} values.`);
  }
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw new StoreError('bad_request', `${subject} is not valid JSON: ${toReason(error as SyntaxError)}.`);
  }
  if (members > 0 && countMembers(value, subject) < members)
    throw new StoreError('bad_request', `${subject} has an object with the same key twice.`);
  return withExactNumbers(text, value, inexact);
}

/** V8 ends some messages with the text itself: `Unexpected token 'o', "nope" is not valid JSON`. */
function toReason({ message }: SyntaxError): string {
  const end = message.search(/, (?:\.{3})?"/);
  return end < 0 ? message : message.slice(0, end);
}

const QUOTE = 34;
const COMMA = 44;
const MINUS = 45;
const ZERO = 48;
const NINE = 57;
const COLON = 58;
const OPEN_LIST = 91;
const BACKSLASH = 92;
const CLOSE_LIST = 93;
const OPEN_OBJECT = 123;
const CLOSE_OBJECT = 125;

/** A number that a JavaScript number writes like this. */
const EXACT = /(?:0|-?[1-9]\d{0,14})(?![\d.eE+-])/y;
const NUMBER = /[\d.eE+-]+/y;

/** Finds what a text has outside of its strings. Means nothing if it is not JSON. */
function scan(text: string) {
  let depth = 0;
  let deepest = 0;
  /** Colons, of which each member has one. */
  let members = 0;
  let separators = 0;
  /** Where the numbers begin and end, alternately, that are not exact. */
  const inexact: number[] = [];
  for (let at = 0; at < text.length; at += 1) {
    const code = text.charCodeAt(at);
    if (code === QUOTE) at = findEndOfString(text, at);
    else if (code === COLON) members += 1;
    else if (code === COMMA) separators += 1;
    else if (code === OPEN_OBJECT || code === OPEN_LIST) deepest = Math.max(deepest, (depth += 1));
    else if (code === CLOSE_OBJECT || code === CLOSE_LIST) depth -= 1;
    else if (code === MINUS || (code >= ZERO && code <= NINE)) {
      const exactEnd = findEnd(EXACT, text, at);
      const end = exactEnd || findEnd(NUMBER, text, at);
      if (exactEnd === 0) inexact.push(at, end);
      at = end - 1;
    }
  }
  return { depth: deepest, members, separators, inexact };
}

function findEndOfString(text: string, start: number): number {
  for (let at = start; ;) {
    at = text.indexOf('"', at + 1);
    if (at < 0) return text.length;
    let escapes = at - 1;
    while (text.charCodeAt(escapes) === BACKSLASH) escapes -= 1;
    if ((at - escapes) % 2 === 1) return at;
  }
}

/** Returns where a match that begins at `start` ends, or 0 if there is none. */
function findEnd(sticky: RegExp, text: string, start: number): number {
  sticky.lastIndex = start;
  sticky.test(text);
  return sticky.lastIndex;
}

const MARK = randomUUID();

/** @param value - the text as `JSON.parse` returns it, with rounded numbers */
function withExactNumbers(text: string, value: unknown, inexact: readonly number[]): unknown {
  if (inexact.length === 0) return value;
  let marked = '';
  let end = 0;
  for (let index = 0; index < inexact.length; index += 2) {
    const start = inexact[index] as number;
    marked += text.slice(end, start);
    end = inexact[index + 1] as number;
    marked += `"${MARK}${text.slice(start, end)}"`;
  }
  return unmark(JSON.parse(marked + text.slice(end)));
}

/** A reviver of `JSON.parse` would take several times as long. */
function unmark(value: unknown): unknown {
  if (typeof value === 'string') return value.startsWith(MARK) ? new JsonNumber(value.slice(MARK.length)) : value;
  if (typeof value !== 'object' || value === null) return value;
  if (Array.isArray(value)) return value.map(unmark);
  const members = value as Record<string, unknown>;
  for (const name in members) members[name] = unmark(members[name]);
  return members;
}

/** A repeated key counts once. */
function countMembers(value: unknown, subject: string): number {
  if (typeof value !== 'object' || value === null) return 0;
  let count = 0;
  if (Array.isArray(value)) {
    for (const element of value) count += countMembers(element, subject);
    return count;
  }
  for (const name in value) {
    if (name === '__proto__') throw new StoreError('bad_request', `${subject} has a key "__proto__".`);
    count += 1 + countMembers((value as Record<string, unknown>)[name], subject);
  }
  return count;
}

/** In characters. A key that begins in what is quoted ends in what is read. */
const MAX_QUOTED = 60;
const MAX_READ = 200;

/** Quotes a value that was received in a message, unless it is an array or an object, which may be nested deep. */
export function quote(input: unknown): string {
  if (Array.isArray(input)) return 'an array';
  if (input instanceof JsonNumber) return input.text.slice(0, MAX_QUOTED);
  if (typeof input === 'object' && input !== null) return 'an object';
  const read = typeof input === 'string' ? input.slice(0, MAX_READ) : input;
  const text = redact(JSON.stringify(read), undefined);
  return text.length > MAX_QUOTED ? `${text.slice(0, MAX_QUOTED)}…` : text;
}
