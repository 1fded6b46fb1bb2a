import { parse } from 'lossless-json';
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
    throw new StoreError('bad_request', `${subject} is not valid JSON.`);
  }
}

/**
 * Parses a client's JSON as `parseExactJson` does. It refuses repeated keys, because a proxy in front of this program
 * may use another of the values.
 * @param inexactMember - a member of the text, or of the objects in it if it is an array, whose numbers may be rounded
 * @throws StoreError `bad_request` if the text is not JSON, has a repeated key or exceeds the JSON limits
 */
export function parseUntrustedJson(text: string, subject: string, inexactMember?: string): unknown {
  const value = parseJson(text, subject);
  const repeated = findRepeatedKey(text, requireSmallJson(value, subject));
  if (repeated !== undefined)
    throw new StoreError('bad_request', `${subject} has the key ${JSON.stringify(repeated.slice(0, 100))} twice.`);
  if (!INEXACT_NUMBER.test(text)) return value;
  const outline = toOutline(text, inexactMember, Array.isArray(value) ? 2 : 1);
  if (!INEXACT_NUMBER.test(outline)) return value;
  if (outline.length > MAX_EXACT_LENGTH) throw tooLongForExactNumbers(subject);
  return withNumbers(value, parse(outline, undefined, toExactNumber));
}

/** The parser that keeps numbers exact takes some 25 ms for this many characters. */
const MAX_EXACT_LENGTH = 131_072;

/** A string, with its colon if it is a key; white space; a bracket; a comma; or a number, `true`, `false` or `null`. */
const TOKEN = /"[^"\\]*(?:\\.[^"\\]*)*"(\s*:)?|\s+|[[\]{},]|[^"\s[\]{},]+/g;

/**
 * Leaves out what makes most texts long: strings that are no keys, white space, and the inexact member.
 * @param depth - how many brackets are open around the inexact member
 */
function toOutline(text: string, inexactMember: string | undefined, depth: number): string {
  const inexactKey = inexactMember && `"${inexactMember}"`;
  let open = 0;
  let isInexact = false;
  return text.replace(TOKEN, (token, colon?: string) => {
    if (token === '{' || token === '[') open += 1;
    else if (token === '}' || token === ']') open -= 1;
    isInexact &&= open > depth || (open === depth && token !== ',');
    if (isInexact) return '';
    if (!colon) return token.startsWith('"') ? '""' : token.trim();
    isInexact = open === depth && token.slice(0, -colon.length) === inexactKey;
    return isInexact ? `${token}null` : token;
  });
}

/** Puts the numbers of `exact` into a value of the same form. What is null there stays as it is. */
function withNumbers(value: unknown, exact: unknown): unknown {
  if (exact instanceof JsonNumber) return exact;
  if (typeof value !== 'object' || value === null || exact === null) return value;
  if (Array.isArray(value)) return value.map((part, i) => withNumbers(part, (exact as readonly unknown[])[i]));
  const parts = exact as Readonly<Record<string, unknown>>;
  return Object.fromEntries(Object.entries(value).map(([name, part]) => [name, withNumbers(part, parts[name])]));
}

function tooLongForExactNumbers(subject: string): StoreError {
  return new StoreError(
    'bad_request',
    `${subject} has a fraction or a number of more than 15 digits, and more than ${MAX_EXACT_LENGTH} characters without ` +
      'its strings: send such numbers as strings.',
  );
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

function toExactNumber(text: string): number | JsonNumber {
  const number = Number(text);
  return Number.isSafeInteger(number) && String(number) === text ? number : new JsonNumber(text);
}
