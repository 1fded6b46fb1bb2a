import { hash } from 'node:crypto';
import { StoreError } from '../errors.js';
import type { Queryable } from '../store/database.js';
import type { IdempotencyKey } from './idempotency-key.js';
import type { Int64 } from './int64.js';
import type { NewPet, Pet, PetStatus } from './pet.js';
import { CallCancelled, type BulkPetSource, type Call } from './pet-source.js';

/** One text for each animal, which takes half the time to read. Only the name may contain spaces. */
const COLUMNS = `id || ' ' || category_id || ' ' || coalesce(status, '') || ' ' || name`;

function toPet([columns]: readonly (string | null)[]): Pet {
  const text = columns as string;
  const idEnd = text.indexOf(' ');
  const categoryEnd = text.indexOf(' ', idEnd + 1);
  const statusEnd = text.indexOf(' ', categoryEnd + 1);
  return {
    id: text.slice(0, idEnd) as Int64,
    name: text.slice(statusEnd + 1),
    categoryId: text.slice(idEnd + 1, categoryEnd) as Int64,
    status: categoryEnd + 1 === statusEnd ? undefined : (text.slice(categoryEnd + 1, statusEnd) as PetStatus),
    statusError: undefined,
  };
}

function listStatement(name: string, condition: string, order: string) {
  return { name, read: toPet, text: `SELECT ${COLUMNS} FROM pets ${condition} ORDER BY ${order} LIMIT $1` };
}

const LIST = listStatement('list-pets', '', 'id');
const LIST_AFTER = listStatement('list-pets-after', 'WHERE id > $2', 'id');
/**
 * Only the index on status and id has this order. For `status = $2 ORDER BY id`, PostgreSQL may scan the primary key,
 * because it assumes that each status is spread evenly over the ids.
 */
const BY_STATUS = 'status, id';
const LIST_BY_STATUS = listStatement('list-pets-by-status', 'WHERE status >= $2 AND status <= $2', BY_STATUS);
/** Only a comparison of the pair starts in the middle of the index: `id > $3` would read all earlier entries. */
const LIST_BY_STATUS_AFTER = listStatement(
  'list-pets-by-status-after',
  'WHERE (status, id) > ($2, $3) AND status <= $2',
  BY_STATUS,
);
const FIND_MANY = { name: 'find-pets', read: toPet, text: `SELECT ${COLUMNS} FROM pets WHERE id = ANY($1::bigint[])` };
const ADD = {
  name: 'add-pet',
  read: toPet,
  text: `INSERT INTO pets (name, category_id, status) VALUES ($1, $2, $3) RETURNING ${COLUMNS}`,
};
/** Rows get their ids in insertion order, so sorting by id restores the order of the arrays. */
const ADD_MANY = {
  name: 'add-pets',
  read: toPet,
  text: `WITH added AS (
           INSERT INTO pets (name, category_id, status)
           SELECT name, category_id, status
           FROM unnest($1::text[], $2::bigint[], $3::text[]) WITH ORDINALITY AS new (name, category_id, status, place)
           ORDER BY place
           RETURNING *
         )
         SELECT ${COLUMNS} FROM added ORDER BY id`,
};

/** Creates the source of the animals in a PostgreSQL database, embedded or on a server. */
export function createPostgresPetSource(database: Queryable, isBlocking = false): BulkPetSource {
  return {
    isBlocking,
    async list({ limit, status, after }, call) {
      requireClient(call);
      const values = [String(limit), status, after].filter((value) => value !== undefined);
      const [whole, later] = status === undefined ? [LIST, LIST_AFTER] : [LIST_BY_STATUS, LIST_BY_STATUS_AFTER];
      return await database.query<Pet>(after === undefined ? whole : later, values);
    },
    async findMany(ids, call) {
      requireClient(call);
      const found = new Map<Int64, Pet>();
      for (const pet of await database.query<Pet>(FIND_MANY, [toArray(ids)])) found.set(pet.id, pet);
      return found;
    },
    async add(newPet, call, key) {
      requireClient(call);
      if (key) return addOnce(database, newPet, key);
      const { name, categoryId, status = null } = newPet;
      return (await database.query<Pet>(ADD, [name, categoryId, status]))[0] as Pet;
    },
    async addMany(newPets, call) {
      requireClient(call);
      return database.query<Pet>(ADD_MANY, [
        toArray(newPets.map(({ name }) => `"${name.replace(/["\\]/g, '\\$&')}"`)),
        toArray(newPets.map(({ categoryId }) => categoryId)),
        toArray(newPets.map(({ status }) => status ?? 'NULL')),
      ]);
    },
  };
}

function requireClient(call: Call): void {
  if (call.isCancelled) throw new CallCancelled();
}

/** Only names need quotes. */
function toArray(elements: readonly string[]): string {
  return `{${elements.join()}}`;
}

/**
 * Adds the animal and stores its key, unless the key was stored within a day. An equal statement that runs at the same
 * moment, in any instance, waits for this one to commit.
 */
const ADD_ONCE = {
  name: 'add-pet-once',
  text: `WITH remembered AS (
           INSERT INTO idempotent_adds AS known (caller_id, key_digest, fingerprint, pet_id)
           VALUES ($1, $2, $3, nextval(pg_get_serial_sequence('pets', 'id')))
           ON CONFLICT (caller_id, key_digest) DO UPDATE
             SET fingerprint = excluded.fingerprint, pet_id = excluded.pet_id, created_at = excluded.created_at
             WHERE known.created_at <= now() - interval '24 hours'
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

async function addOnce(database: Queryable, newPet: NewPet, { callerId, value }: IdempotencyKey): Promise<Pet> {
  const columns = [newPet.name, newPet.categoryId, newPet.status ?? null];
  const digest = hash('sha256', value, 'buffer');
  const fingerprint = hash('sha256', JSON.stringify(columns), 'buffer');
  const values = [callerId, digest, fingerprint, ...columns];
  const [added] = await database.query<{ pet_id: Int64 }>(ADD_ONCE, values);
  if (added) return { id: added.pet_id, ...newPet };
  const [known] = await database.query<{ fingerprint: Uint8Array; pet_id: Int64 }>(FIND, [callerId, digest]);
  if (!known)
    throw new StoreError('unavailable', 'The Idempotency-Key has ended at this moment: try again.', { retryAfter: 1 });
  if (fingerprint.equals(known.fingerprint)) return { id: known.pet_id, ...newPet };
  throw new StoreError(
    'idempotency_key_reused',
    'The Idempotency-Key was sent with another animal within the last 24 hours: use a new key for a new request.',
  );
}
