import pg from 'pg';

/**
 * The animals of the peers in store mode: one prepared statement per call, over as many connections as this program has.
 * The SQL returns the status in upper case, as GraphQL writes it.
 */
const COLUMNS = 'id, name, category_id AS "categoryId", upper(status) AS status';
const LIST = { name: 'list', text: `SELECT ${COLUMNS} FROM pets ORDER BY id LIMIT $1` };
const LIST_BY_STATUS = {
  name: 'list-by-status',
  text: `SELECT ${COLUMNS} FROM pets WHERE status = $2 ORDER BY id LIMIT $1`,
};
const FIND_MANY = { name: 'find-many', text: `SELECT ${COLUMNS} FROM pets WHERE id = ANY($1::bigint[])` };
const ADD = {
  name: 'add',
  text: `INSERT INTO pets (name, category_id, status) VALUES ($1, $2, $3) RETURNING ${COLUMNS}`,
};

export function openPostgresSource(connectionString) {
  const pool = new pg.Pool({ connectionString, max: Number(process.env.DATABASE_POOL ?? 10) });
  pool.on('error', () => undefined);
  const ask = async (statement, values) => (await pool.query({ ...statement, values })).rows;
  return {
    list: (limit, status) => (status == null ? ask(LIST, [limit]) : ask(LIST_BY_STATUS, [limit, status.toLowerCase()])),
    async findMany(ids) {
      const found = new Map((await ask(FIND_MANY, [ids])).map((row) => [row.id, row]));
      return ids.map((id) => found.get(id) ?? null);
    },
    add: async ({ name, categoryId, status }) =>
      (await ask(ADD, [name, categoryId, status == null ? null : status.toLowerCase()]))[0],
  };
}
