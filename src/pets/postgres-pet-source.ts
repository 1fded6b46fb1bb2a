import type { Queryable } from '../database/database.js';
import { addOnce } from './idempotent-adds.js';
import type { Int64 } from './int64.js';
import type { Pet, PetStatus } from './pet.js';
import type { PetSource } from './pet-source.js';

interface PetRow {
  readonly id: Int64;
  readonly name: string;
  readonly category_id: Int64;
  readonly status: PetStatus | null;
}

const COLUMNS = 'id, name, category_id, status';

const LIST = { name: 'list-pets', text: `SELECT ${COLUMNS} FROM pets ORDER BY id LIMIT $1` };
const LIST_BY_STATUS = {
  name: 'list-pets-by-status',
  text: `SELECT ${COLUMNS} FROM pets WHERE status = $2 ORDER BY id LIMIT $1`,
};
const FIND_MANY = { name: 'find-pets', text: `SELECT ${COLUMNS} FROM pets WHERE id = ANY($1::bigint[])` };
const ADD = {
  name: 'add-pet',
  text: `INSERT INTO pets (name, category_id, status) VALUES ($1, $2, $3) RETURNING ${COLUMNS}`,
};

/** The animals of a PostgreSQL database, embedded or on a server. */
export function createPostgresPetSource(database: Queryable): PetSource {
  return {
    async list({ limit, status }, { signal }) {
      signal.throwIfAborted();
      const rows = await (status === undefined
        ? database.query<PetRow>(LIST, [limit])
        : database.query<PetRow>(LIST_BY_STATUS, [limit, status]));
      return rows.map(toPet);
    },
    async findMany(ids, { signal }) {
      signal.throwIfAborted();
      const rows = await database.query<PetRow>(FIND_MANY, [ids]);
      const found = new Map(rows.map((row) => [row.id, toPet(row)]));
      return ids.map((id) => found.get(id));
    },
    async add(newPet, { signal, callerId = '' }, key) {
      signal.throwIfAborted();
      if (key) return addOnce(database, newPet, { callerId, key });
      const { name, categoryId, status } = newPet;
      const [row] = await database.query<PetRow>(ADD, [name, categoryId, status ?? null]);
      if (row === undefined) throw new Error('INSERT returned no row');
      return toPet(row);
    },
  };
}

function toPet({ id, name, category_id: categoryId, status }: PetRow): Pet {
  return status === null ? { id, name, categoryId } : { id, name, categoryId, status };
}
