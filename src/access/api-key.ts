import { hash, randomInt } from 'node:crypto';
import { crc32 } from 'node:zlib';

const ALPHABET = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
const PREFIX = 'pets_';
/** 190 bits cannot be guessed, so a fast digest is safe to store. */
const SECRET_LENGTH = 32;
const CHECKSUM_LENGTH = 6;
const ANYWHERE = /pets_[0-9A-Za-z]{38}/;

/** A prefix that secret scanners can find, a random part and its checksum. */
export function generateApiKey(): string {
  const secret = randomText(SECRET_LENGTH);
  return PREFIX + secret + checksum(secret);
}

export function generateKeyId(): string {
  return `key_${randomText(12)}`;
}

/** Returns undefined if the text has the form of a key. */
export function explainMistake(text: string): string | undefined {
  if (ANYWHERE.exec(text)?.[0] === text) return undefined;
  const length = SECRET_LENGTH + CHECKSUM_LENGTH;
  return `This is not a complete key: keys are ${PREFIX} followed by ${length} characters.`;
}

/** Checks the form and the checksum: most made-up keys never reach the database. */
export function isPlausibleApiKey(text: string): boolean {
  const secret = text.slice(PREFIX.length, -CHECKSUM_LENGTH);
  return explainMistake(text) === undefined && text.endsWith(checksum(secret));
}

/** Returns what the program stores and caches instead of a key. */
export function digestApiKey(key: string): string {
  return hash('sha256', key, 'base64url');
}

function randomText(length: number): string {
  return Array.from({ length }, () => ALPHABET[randomInt(ALPHABET.length)]).join('');
}

function checksum(secret: string): string {
  let rest = crc32(secret);
  let text = '';
  while (text.length < CHECKSUM_LENGTH) {
    text = ALPHABET.charAt(rest % ALPHABET.length) + text;
    rest = Math.floor(rest / ALPHABET.length);
  }
  return text;
}

/** The scheme may have any case: RFC 9110, section 11.1. */
const BEARER = /^bearer +(\S.*)$/i;

export function parseBearer(authorization: string | undefined): string | undefined {
  return authorization === undefined ? undefined : BEARER.exec(authorization)?.[1]?.trimEnd();
}

/** A shorter key of another store could be part of any text. */
const LEAST_LENGTH = 8;

/**
 * Returns a text that a client sent, unless it contains an API key.
 * @param authorization - the header of its request: the keys of other stores have any form
 */
export function redact(text: string, authorization: string | undefined): string {
  const key = parseBearer(authorization) ?? '';
  return ANYWHERE.test(text) || (key.length >= LEAST_LENGTH && text.includes(key)) ? '(redacted)' : text;
}

export const CLIENT_NAME_HEADER = 'apollographql-client-name';

/** The control characters, white space and soft hyphen of Latin-1, the encoding in which Node reads headers. */
const INVISIBLE = /[^\x21-\x7e\xa1-\xac\xae-\xff]+/g;

/**
 * Parses the name of a client. The result is safe in a table, a log, a terminal and a header.
 * @param authorization - the header, because some clients send their key as their name
 */
export function parseClientName(header: string | undefined, authorization: string | undefined): string | undefined {
  if (!header) return undefined;
  const name = redact(header, authorization).slice(0, 1_000).replace(INVISIBLE, ' ').trim();
  return name.slice(0, 100).trimEnd() || undefined;
}
