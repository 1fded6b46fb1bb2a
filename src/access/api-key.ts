import { hash, randomInt } from 'node:crypto';
import { crc32 } from 'node:zlib';

const ALPHABET = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
const PREFIX = 'pets_';
/** 32 characters of 62 are 190 bits: nobody guesses them, so a plain fast digest protects them at rest. */
const SECRET_LENGTH = 32;
const CHECKSUM_LENGTH = 6;
const RANDOM_PART = `[0-9A-Za-z]{${SECRET_LENGTH + CHECKSUM_LENGTH}}`;
const FORMAT = new RegExp(`^${PREFIX}${RANDOM_PART}$`);
const ANYWHERE = new RegExp(PREFIX + RANDOM_PART);

/** Makes a new API key: a prefix that secret scanners can look for, a random part, and its checksum. */
export function generateApiKey(): string {
  const secret = randomText(SECRET_LENGTH);
  return PREFIX + secret + checksum(secret);
}

/** Makes the public identifier of a key, which may stand in logs. */
export function generateKeyId(): string {
  return `key_${randomText(12)}`;
}

/**
 * Tells whether a text can be a key at all. A text made up without knowing the checksum never reaches the database.
 */
export function isPlausibleApiKey(text: string): boolean {
  if (!FORMAT.test(text)) return false;
  const end = PREFIX.length + SECRET_LENGTH;
  return text.slice(end) === checksum(text.slice(PREFIX.length, end));
}

/** Tells whether a text has something in it that looks like a key. */
export function containsApiKey(text: string): boolean {
  return ANYWHERE.test(text);
}

/** The SHA-256 of a key, in base64url: what is stored and cached instead of the key. */
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
