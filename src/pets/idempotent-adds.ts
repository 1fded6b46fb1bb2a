import { createHash } from 'node:crypto';
import type { Queryable } from '../store/database.js';
import { StoreError } from '../errors.js';
import type { SpanParent } from '../observability/tracing.js';
import type { IdempotencyKey } from './idempotency-key.js';
import type { Int64 } from './int64.js';
import type { NewPet, Pet } from './pet.js';

/** How long an answer is given again, as PostgreSQL says it. */
const KEPT_FOR = `interval '24 hours'`;

/**
 * Adds the animal and remembers its key in one statement, unless the key is remembered already. An equal statement that runs
 * at the same moment, here or in another instance, waits for this one's commit. What is older than a day counts as forgotten.
 */
const ADD_ONCE = {
  name: 'add-pet-once',
  text: `WITH remembered AS (
           INSERT INTO idempotent_adds AS known (caller_id, key_digest, fingerprint, pet_id)
           VALUES ($1, $2, $3, nextval(pg_get_serial_sequence('pets', 'id')))
           ON CONFLICT (caller_id, key_digest) DO UPDATE
             SET fingerprint = excluded.fingerprint, pet_id = excluded.pet_id, created_at = excluded.created_at
             WHERE known.created_at <= now() - ${KEPT_FOR}
           RETURNING pet_id
         ), added AS (
           INSERT INTO pets (id, name, category_id, status)
           SELECT pet_id, $4::text, $5::bigint, $6::text FROM remembered
         )
         SELECT pet_id FROM remembered`,
};
const FIND = {
  name: 'find-idempotent-add',
  text: 'SELECT fingerprint, pet_id FROM idempotent_adds WHERE caller_id = $1 AND key_digest = $2',
};
const PRUNE = {
  name: 'prune-idempotent-adds',
  text: `DELETE FROM idempotent_adds WHERE (caller_id, key_digest) IN (
           SELECT caller_id, key_digest FROM idempotent_adds WHERE created_at <= now() - ${KEPT_FOR}
           ORDER BY created_at LIMIT $1 FOR UPDATE SKIP LOCKED
         ) RETURNING 1`,
};

/** Forgotten between two questions: once is unlikely, and twice does not happen. */
const MAX_ATTEMPTS = 3;

/**
 * Adds an animal once, however often it is asked for under one key.
 * @returns the animal as it was added first
 * @throws StoreError `idempotency_key_reused` when something else was asked for under the key
 */
export async function addOnce(
  database: Queryable,
  newPet: NewPet,
  { callerId, value }: IdempotencyKey,
  parent?: SpanParent,
): Promise<Pet> {
  const { name, categoryId, status } = newPet;
  const digest = sha256(value);
  const fingerprint = sha256(JSON.stringify([name, categoryId, status ?? null]));
  for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
    const values = [callerId, digest, fingerprint, name, categoryId, status ?? null];
    const [added] = await database.query<{ pet_id: Int64 }>(ADD_ONCE, values, parent);
    if (added) return toPet(added.pet_id, newPet);
    const [known] = await database.query<{ fingerprint: Uint8Array; pet_id: Int64 }>(FIND, [callerId, digest], parent);
    if (!known) continue;
    if (!fingerprint.equals(known.fingerprint)) throw keyReused();
    return toPet(known.pet_id, newPet);
  }
  throw new Error('an idempotency key was forgotten over and over while it was asked for');
}

/**
 * Forgets what is older than a day, a batch after the other.
 * @returns how many were forgotten
 */
export async function pruneIdempotentAdds(database: Queryable, batchSize = 1_000): Promise<number> {
  let total = 0;
  for (;;) {
    const { length } = await database.query(PRUNE, [batchSize]);
    total += length;
    if (length < batchSize) return total;
  }
}

/** The animal as it was added: what is asked for again is equal, whatever has become of it since. */
function toPet(id: Int64, { name, categoryId, status }: NewPet): Pet {
  return status === undefined ? { id, name, categoryId } : { id, name, categoryId, status };
}

function keyReused(): StoreError {
  return new StoreError(
    'idempotency_key_reused',
    'The Idempotency-Key was sent with another animal within the last 24 hours: use a new key for a new request.',
  );
}

function sha256(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}
