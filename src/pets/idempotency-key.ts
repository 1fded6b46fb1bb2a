import { createHash } from 'node:crypto';
import { StoreError } from '../errors.js';

/**
 * What a client sends so that a request may be repeated without adding twice.
 * https://datatracker.ietf.org/doc/draft-ietf-httpapi-idempotency-key-header/
 */
export interface IdempotencyKey {
  /** Identifies whose it is, never by the secret: keys of different callers have nothing to do with each other. */
  readonly callerId: string;
  /** 1 to 255 printable ASCII characters. */
  readonly value: string;
  /** Whether it came as the quoted string of the draft, or bare, as many clients send it; another store gets it likewise. */
  readonly isQuoted: boolean;
}

const MAX_LENGTH = 255;
const BARE = /^[\x21\x23-\x7e]+$/;
const QUOTED = /^"(?:[\x20\x21\x23-\x5b\x5d-\x7e]|\\["\\])*"$/;

/**
 * Takes the header as it arrived; one that was sent twice arrives with both values, and is refused.
 * @param callerId - identifies who sent it
 * @returns undefined when there is none
 * @throws StoreError `bad_request` when it is malformed
 */
export function parseIdempotencyKey(header: string | undefined, callerId = ''): IdempotencyKey | undefined {
  if (header === undefined) return undefined;
  const isQuoted = QUOTED.test(header);
  const value = isQuoted ? header.slice(1, -1).replace(/\\(.)/g, '$1') : header;
  if ((isQuoted || BARE.test(header)) && value.length > 0 && value.length <= MAX_LENGTH)
    return { callerId, value, isQuoted };
  throw new StoreError(
    'bad_request',
    `Idempotency-Key must be one key of 1 to ${MAX_LENGTH} printable ASCII characters, in double quotes or without spaces.`,
  );
}

/** Writes a key as the header that it came in. */
export function formatIdempotencyKey({ value, isQuoted }: IdempotencyKey): string {
  return isQuoted ? `"${value.replace(/["\\]/g, '\\$&')}"` : value;
}

/** How much of the client's own key stays readable in a completed one. */
const READABLE_LENGTH = 200;

/**
 * Completes the key of an HTTP request for one of the additions that it asks for. The first keeps the key as it is, so
 * that a request for one animal has the same key everywhere; the others add a digest of their place, which no other key
 * can come to by chance.
 * @param entry - the operation's index in an HTTP batch
 * @param position - the index of the field among the `addPet` fields of its operation
 */
export function completeIdempotencyKey(key: IdempotencyKey, entry: number, position: number): IdempotencyKey {
  if (entry === 0 && position === 0) return key;
  const place = createHash('sha256')
    .update(JSON.stringify([key.value, entry, position]))
    .digest('hex')
    .slice(0, 24);
  return { ...key, value: `${key.value.slice(0, READABLE_LENGTH)}~${place}` };
}
