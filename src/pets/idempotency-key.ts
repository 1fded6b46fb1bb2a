import { hash } from 'node:crypto';
import { StoreError } from '../errors.js';

/**
 * A client sends it with each repeat of a request, so that the store adds the animal once.
 * https://datatracker.ietf.org/doc/draft-ietf-httpapi-idempotency-key-header/
 */
export interface IdempotencyKey {
  /** Never a secret. */
  readonly callerId: string;
  /** 1 to 255 printable ASCII characters. */
  readonly value: string;
}

const MAX_LENGTH = 255;
const BARE = /^[\x21\x23-\x7e]+$/;
const QUOTED = /^"(?:[\x20\x21\x23-\x5b\x5d-\x7e]|\\["\\])*"$/;

/**
 * Parses the header: a quoted string, as the draft specifies, or the bare value, as many clients send it.
 * @throws StoreError `bad_request` if it is malformed or was sent twice
 */
export function parseIdempotencyKey(header: string | undefined, callerId = ''): IdempotencyKey | undefined {
  if (header === undefined) return undefined;
  const value = QUOTED.test(header) ? header.slice(1, -1).replace(/\\(.)/g, '$1') : BARE.exec(header)?.[0];
  if (value && value.length <= MAX_LENGTH) return { callerId, value };
  throw new StoreError(
    'bad_request',
    `Idempotency-Key must be one key of 1 to ${MAX_LENGTH} printable ASCII characters, in double quotes or without spaces.`,
  );
}

export function formatIdempotencyKey({ value }: IdempotencyKey): string {
  return `"${value.replace(/["\\]/g, '\\$&')}"`;
}

/**
 * Derives the key of one addition from the key of its HTTP request. The first addition has the same key, as in REST.
 * @param entry - the operation's index in an HTTP batch
 * @param position - the index of the field among the `addPet` fields of its operation
 */
export function completeIdempotencyKey(key: IdempotencyKey, entry: number, position: number): IdempotencyKey {
  if (entry === 0 && position === 0) return key;
  return { ...key, value: hash('sha256', JSON.stringify([key.value, entry, position])) };
}
