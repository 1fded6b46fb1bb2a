import { hash } from 'node:crypto';
import type { Queryable } from '../store/database.js';
import { StoreError } from '../errors.js';
import type { SpanParent } from '../observability/tracing.js';
import type { IdempotencyKey } from './idempotency-key.js';
import type { Int64 } from './int64.js';
import type { NewPet, Pet } from './pet.js';

/** How long a key is kept, as a PostgreSQL interval. */
const KEPT_FOR = `interval '24 hours'`;

/**
 * Adds the animal and stores its key in one statement, unless the key is already stored. If an equal statement runs at
 * the same moment, here or in another instance, it waits for this one to commit. Keys older than a day are ignored.
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
/** The array keeps PostgreSQL from joining the table with itself, which would read the whole index for each batch. */
const PRUNE = {
  name: 'prune-idempotent-adds',
  text: `DELETE FROM idempotent_adds WHERE ctid = ANY (ARRAY(
           SELECT ctid FROM idempotent_adds WHERE created_at <= now() - ${KEPT_FOR}
           ORDER BY created_at LIMIT $1 FOR UPDATE SKIP LOCKED
         )) RETURNING 1`,
};

/** Keys deleted by one statement. */
const PRUNE_BATCH = 1_000;

/**
 * Adds an animal once, however often the caller repeats the request with the same key.
 * @returns the animal as it was first added
 * @throws StoreError `idempotency_key_reused` if the key was used for a different animal
 */
export async function addOnce(
  database: Queryable,
  newPet: NewPet,
  { callerId, value }: IdempotencyKey,
  parent?: SpanParent,
): Promise<Pet> {
  const { name, categoryId, status } = newPet;
  const digest = hash('sha256', value, 'buffer');
  const fingerprint = hash('sha256', JSON.stringify([name, categoryId, status ?? null]), 'buffer');
  const values = [callerId, digest, fingerprint, name, categoryId, status ?? null];
  // The key may be deleted between the two statements. Then the next attempt adds the animal.
  for (;;) {
    const [added] = await database.query<{ pet_id: Int64 }>(ADD_ONCE, values, parent);
    if (added) return { id: added.pet_id, ...newPet };
    const [known] = await database.query<{ fingerprint: Uint8Array; pet_id: Int64 }>(FIND, [callerId, digest], parent);
    if (!known) continue;
    if (fingerprint.equals(known.fingerprint)) return { id: known.pet_id, ...newPet };
    throw new StoreError(
      'idempotency_key_reused',
      'The Idempotency-Key was sent with another animal within the last 24 hours: use a new key for a new request.',
    );
  }
}

/** Deletes keys older than a day, in batches. */
export async function pruneIdempotentAdds(database: Queryable): Promise<void> {
  while ((await database.query(PRUNE, [PRUNE_BATCH])).length === PRUNE_BATCH);
}
