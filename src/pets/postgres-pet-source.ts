import type { Queryable } from '../store/database.js';
import { addOnce } from './idempotent-adds.js';
import type { Int64 } from './int64.js';
import type { Pet, PetStatus } from './pet.js';
import { CallCancelled, type BulkPetSource, type Call } from './pet-source.js';

/** A row of the columns below. It equals a Pet, except that a missing status is null. */
interface PetRow {
  readonly id: Int64;
  readonly name: string;
  readonly categoryId: Int64;
  readonly status: PetStatus | null;
}

const COLUMNS = 'id, name, category_id AS "categoryId", status';

const LIST = { name: 'list-pets', text: `SELECT ${COLUMNS} FROM pets ORDER BY id LIMIT $1` };
/**
 * Only the index on status and id has this order. For `status = $2 ORDER BY id`, PostgreSQL may scan the primary key
 * and skip every animal with another status, because it assumes that each status is spread evenly over the ids.
 */
const LIST_BY_STATUS = {
  name: 'list-pets-by-status',
  text: `SELECT ${COLUMNS} FROM pets WHERE status >= $2 AND status <= $2 ORDER BY status, id LIMIT $1`,
};
const FIND_MANY = { name: 'find-pets', text: `SELECT ${COLUMNS} FROM pets WHERE id = ANY($1::bigint[])` };
const ADD = {
  name: 'add-pet',
  text: `INSERT INTO pets (name, category_id, status) VALUES ($1, $2, $3) RETURNING ${COLUMNS}`,
};
/** Rows get their ids in insertion order, so sorting by id restores the order of the arrays. */
const ADD_MANY = {
  name: 'add-pets',
  text: `
    WITH added AS (
      INSERT INTO pets (name, category_id, status)
      SELECT name, category_id, status
      FROM unnest($1::text[], $2::bigint[], $3::text[]) WITH ORDINALITY AS new (name, category_id, status, place)
      ORDER BY place
      RETURNING id, name, category_id, status
    )
    SELECT ${COLUMNS} FROM added ORDER BY id`,
};

/** Creates the source of the animals in a PostgreSQL database, embedded or on a server. */
export function createPostgresPetSource(database: Queryable, isBlocking = false): BulkPetSource {
  return {
    isBlocking,
    async list({ limit, status }, call) {
      requireClient(call);
      const rows = await (status === undefined
        ? database.query<PetRow>(LIST, [limit], call)
        : database.query<PetRow>(LIST_BY_STATUS, [limit, status], call));
      return toPets(rows);
    },
    async findMany(ids, call) {
      requireClient(call);
      // Identifiers need no quoting. pg would quote each element of an array.
      const rows = await database.query<PetRow>(FIND_MANY, [`{${ids.join()}}`], call);
      const found = new Map<Int64, Pet>();
      for (const pet of toPets(rows)) found.set(pet.id, pet);
      return ids.map((id) => found.get(id));
    },
    async add(newPet, call, key) {
      requireClient(call);
      if (key) return addOnce(database, newPet, key, call);
      const { name, categoryId, status } = newPet;
      const rows = await database.query<PetRow>(ADD, [name, categoryId, status ?? null], call);
      return toPets(rows)[0] as Pet;
    },
    async addMany(newPets, call) {
      requireClient(call);
      const values = [
        newPets.map(({ name }) => name),
        `{${newPets.map(({ categoryId }) => categoryId).join()}}`,
        newPets.map(({ status }) => status ?? null),
      ];
      return toPets(await database.query<PetRow>(ADD_MANY, values, call));
    },
  };
}

function requireClient(call: Call): void {
  if (call.isCancelled) throw new CallCancelled();
}

/** Returns the rows themselves, and copies them only if a status is null. */
function toPets(rows: readonly PetRow[]): readonly Pet[] {
  return rows.some(({ status }) => status === null) ? rows.map(toPet) : (rows as readonly Pet[]);
}

function toPet({ id, name, categoryId, status }: PetRow): Pet {
  return status === null ? { id, name, categoryId } : { id, name, categoryId, status };
}
