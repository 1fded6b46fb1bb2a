import { hash, randomInt } from 'node:crypto';
import { crc32 } from 'node:zlib';

const ALPHABET = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
const PREFIX = 'pets_';
/** 32 characters from an alphabet of 62 are 190 bits. They cannot be guessed, so a fast digest is safe to store. */
const SECRET_LENGTH = 32;
const CHECKSUM_LENGTH = 6;
const RANDOM_LENGTH = SECRET_LENGTH + CHECKSUM_LENGTH;
const RANDOM_PART = `[0-9A-Za-z]{${RANDOM_LENGTH}}`;
const FORMAT = new RegExp(`^${PREFIX}${RANDOM_PART}$`);
/** What looks like a key in any text. */
const ANYWHERE = new RegExp(PREFIX + RANDOM_PART);

/** Generates an API key: a prefix that secret scanners can find, a random part and a checksum of that part. */
export function generateApiKey(): string {
  const secret = randomText(SECRET_LENGTH);
  return PREFIX + secret + checksum(secret);
}

/** Generates the public identifier of a key, which is safe to log. */
export function generateKeyId(): string {
  return `key_${randomText(12)}`;
}

/** Explains why a text cannot be a key. Returns undefined if it has the form of one. */
export function explainMistake(text: string): string | undefined {
  if (FORMAT.test(text)) return undefined;
  return `This is not a complete key: keys are ${PREFIX} followed by ${RANDOM_LENGTH} characters.`;
}

/** Checks the format and the checksum of a key: most made-up keys never reach the database. */
export function isPlausibleApiKey(text: string): boolean {
  if (!FORMAT.test(text)) return false;
  const end = PREFIX.length + SECRET_LENGTH;
  return text.slice(end) === checksum(text.slice(PREFIX.length, end));
}

/** Returns the SHA-256 of a key in base64url. The program stores and caches this digest instead of the key. */
export function digestApiKey(key: string): string {
  return hash('sha256', key, 'base64url');
}

function randomText(length: number): string {
  return Array.from({ length }, () => ALPHABET[randomInt(ALPHABET.length)]).join('');
}

function checksum(secret: string): string {
  let rest = crc32(secret);
  let text = '';
  for (let i = 0; i < CHECKSUM_LENGTH; i++) {
    text = (ALPHABET[rest % ALPHABET.length] as string) + text;
    rest = Math.floor(rest / ALPHABET.length);
  }
  return text;
}

/** The scheme may have any case: RFC 9110, section 11.1. */
const BEARER = /^bearer +(\S.*)$/i;

/** Returns the key, which is never empty; undefined without one. */
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
  const hasKey = ANYWHERE.test(text) || (key.length >= LEAST_LENGTH && text.includes(key));
  return hasKey ? '(redacted)' : text;
}

/** The header in which Apollo's clients, and any others, send their name. */
export const CLIENT_NAME_HEADER = 'apollographql-client-name';

/** Longer client names are cut, in characters. */
const MAX_NAME_LENGTH = 100;
/** The control characters, white space and soft hyphen of Latin-1, the encoding in which Node reads headers. */
const INVISIBLE = /[^\x21-\x7e\xa1-\xac\xae-\xff]+/g;

/**
 * Parses the name of a client. The result is safe in a table, a log, a terminal and a header.
 * @param authorization - the header, because some clients send their key as their name
 */
export function parseClientName(header: string | undefined, authorization: string | undefined): string | undefined {
  if (!header) return undefined;
  const name = redact(header, authorization).replace(INVISIBLE, ' ').trim();
  return name.slice(0, MAX_NAME_LENGTH).trimEnd() || undefined;
}
