import pg from 'pg';
import { Pool } from 'undici';

const { DATABASE_URL, UPSTREAM_URL, PORT: port } = process.env;
export const PORT = Number(port);
export const HOST = '127.0.0.1';

/** The animals behind a peer: `list`, `findMany` and `add`. */
export const openSource = () => (UPSTREAM_URL ? openUpstream(UPSTREAM_URL) : openPostgres(DATABASE_URL));

const COLUMNS = 'id, name, category_id AS "categoryId", upper(status) AS status';
const LIST = `SELECT ${COLUMNS} FROM pets ORDER BY id LIMIT $1`;
const LIST_BY_STATUS = `SELECT ${COLUMNS} FROM pets WHERE status = lower($2) ORDER BY id LIMIT $1`;
const FIND_MANY = `SELECT ${COLUMNS} FROM pets WHERE id = ANY($1::bigint[])`;
const ADD = `INSERT INTO pets (name, category_id, status) VALUES ($1, $2, lower($3)) RETURNING ${COLUMNS}`;

/** One prepared statement per call, over as many connections as this program opens. */
function openPostgres(connectionString) {
  const pool = new pg.Pool({ connectionString, max: 10 });
  pool.on('error', () => undefined);
  const query = async (name, text, values) => (await pool.query({ name, text, values })).rows;
  return {
    list: (limit, status) =>
      status == null ? query('list', LIST, [limit]) : query('list-by-status', LIST_BY_STATUS, [limit, status]),
    async findMany(ids) {
      const found = new Map((await query('find-many', FIND_MANY, [ids])).map((row) => [row.id, row]));
      return ids.map((id) => found.get(id) ?? null);
    },
    add: async ({ name, categoryId, status }) => (await query('add', ADD, [name, categoryId, status]))[0],
  };
}

/** Another store over REST through undici's Pool, with the client's key. */
function openUpstream(base) {
  const { origin, pathname } = new URL(base);
  const pool = new Pool(origin, { connections: 64 });
  async function request(method, path, authorization, body) {
    const headers = { accept: 'application/json', authorization };
    if (body !== undefined) headers['content-type'] = 'application/json';
    const response = await pool.request({ method, path: pathname + path, headers, body });
    const content = await response.body.json();
    if (response.statusCode === 404) return null;
    if (response.statusCode >= 400) throw new Error(content.message);
    return content;
  }
  const toPet = ({ id, name, categoryId, status }) => ({
    id: String(id),
    name,
    categoryId: String(categoryId),
    status: status?.toUpperCase() ?? null,
  });
  return {
    async list(limit, status, authorization) {
      const filter = status == null ? '' : `&status=${status.toLowerCase()}`;
      return (await request('GET', `/pets?limit=${limit}${filter}`, authorization)).map(toPet);
    },
    findMany: (ids, authorization) =>
      Promise.all(
        ids.map(async (id) => {
          const found = await request('GET', `/pets/${id}`, authorization);
          return found && toPet(found);
        }),
      ),
    async add({ name, categoryId, status }, authorization) {
      const animal = { name, categoryId: Number(categoryId), status: status?.toLowerCase() };
      return toPet(await request('POST', '/pets', authorization, JSON.stringify(animal)));
    },
  };
}
