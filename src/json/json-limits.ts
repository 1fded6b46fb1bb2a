import { StoreError } from '../errors.js';

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
export function requireFewMembers(text: string, subject: string): void {
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
export function requireSmallJson(value: unknown, subject: string): number {
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
const TOKEN = /("[^"\\]*(?:\\.[^"\\]*)*")(\s*:)?|[{}]/g;

/**
 * Finds a repeated key in an object of a valid JSON text. Parsing hides this, because the last value wins.
 *
 * A count comes first, because it is fast. Every key ends in `":`. Only an escaped quote before a colon, inside a
 * string, looks the same. If no key has white space before its colon, and there are as many `":` as members, no key is
 * repeated.
 * @param members - the number of members of all parsed objects
 */
export function findRepeatedKey(text: string, members: number): string | undefined {
  let count = 0;
  for (let at = text.indexOf('":'); at >= 0; at = text.indexOf('":', at + 2)) count += 1;
  if (count === members && !SPACED_KEY.test(text)) return undefined;
  const openObjects: Set<string>[] = [];
  for (const [token, string, colon] of text.matchAll(TOKEN)) {
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
