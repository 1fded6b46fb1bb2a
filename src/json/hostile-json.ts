import { StoreError } from '../errors.js';

/** Levels of nesting at the most: an operation needs some five. */
const MAX_DEPTH = 100;
/** Members and elements at the most: a full batch of a hundred fields each, with variables of their own, has some 8,000. */
const MAX_VALUES = 20_000;

/**
 * Refuses parsed JSON that is nested or filled beyond all need, or that names a prototype.
 * @param subject - how to call it in the error
 * @returns how many members all its objects have together
 * @throws StoreError `bad_request`
 */
export function requireModestJson(value: unknown, subject: string): number {
  let members = 0;
  let left = MAX_VALUES;
  visit(value, 0);
  return members;

  function visit(part: unknown, depth: number): void {
    if (typeof part !== 'object' || part === null) return;
    if (depth === MAX_DEPTH) throw new StoreError('bad_request', `${subject} nests deeper than ${MAX_DEPTH} levels.`);
    const isArray = Array.isArray(part);
    const names = isArray ? undefined : Object.keys(part);
    const size = isArray ? part.length : (names as string[]).length;
    left -= size;
    if (left < 0) throw new StoreError('bad_request', `${subject} holds more than ${MAX_VALUES} values.`);
    if (isArray) {
      for (const element of part as readonly unknown[]) visit(element, depth + 1);
      return;
    }
    members += size;
    for (const name of names as string[]) {
      if (name === '__proto__') throw new StoreError('bad_request', `${subject} has a key "__proto__".`);
      visit((part as Record<string, unknown>)[name], depth + 1);
    }
  }
}

/** A key as it is seldom written, with space before its colon. */
const SPACED_KEY = /"[ \t\r\n]+:/;

/**
 * Tells whether a key stands twice in one object of a valid JSON text, which parsing hides: the last value wins.
 *
 * Counts first. Every key ends in `":`, and so does nothing else but an escaped quote before a colon within a string. So when
 * no key is spaced and there are as many of them as there are members, none was lost.
 * @param members - how many members the parsed objects have together
 */
export function hasRepeatedKey(text: string, members: number): boolean {
  let count = 0;
  for (let at = text.indexOf('":'); at >= 0; at = text.indexOf('":', at + 2)) count += 1;
  if (count === members && !SPACED_KEY.test(text)) return false;
  return findRepeatedKey(text) !== undefined;
}

const QUOTE = '"'.charCodeAt(0);
const COLON = ':'.charCodeAt(0);
const OPENING = '{'.charCodeAt(0);
const CLOSING = '}'.charCodeAt(0);
const BACKSLASH = '\\'.charCodeAt(0);

/** Finds a key that an object of a valid JSON text has twice, in one pass. */
export function findRepeatedKey(text: string): string | undefined {
  const openObjects: Set<string>[] = [];
  let stringStart = 0;
  let stringEnd = 0;
  for (let at = 0; at < text.length; at++) {
    switch (text.charCodeAt(at)) {
      case QUOTE:
        stringStart = at;
        at = stringEnd = endOfString(text, at);
        break;
      case OPENING:
        openObjects.push(new Set());
        break;
      case CLOSING:
        openObjects.pop();
        break;
      case COLON: {
        const keys = openObjects.at(-1);
        const key = JSON.parse(text.slice(stringStart, stringEnd + 1)) as string;
        if (keys?.has(key)) return key;
        keys?.add(key);
      }
    }
  }
  return undefined;
}

/** The index of the quote that ends the string which begins at `start`; an escape is taken whole. */
function endOfString(text: string, start: number): number {
  let at = start + 1;
  for (let code = text.charCodeAt(at); code !== QUOTE && at < text.length; code = text.charCodeAt(at)) {
    at += code === BACKSLASH ? 2 : 1;
  }
  return at;
}
