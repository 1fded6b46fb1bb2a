import type { Database } from './database.js';

/**
 * What a server does with each table. A role that only serves needs no other permissions: docs/operating.md lists them.
 * The CASE keeps PostgreSQL from asking for the permissions of a table that does not exist.
 */
const FIND_PROBLEMS = {
  name: 'check-store',
  text: `SELECT name, permission, to_regclass(name) IS NOT NULL AS exists
         FROM (VALUES
           ('pets', 'SELECT, INSERT'),
           ('pets_id_seq', 'USAGE'),
           ('api_keys', 'SELECT'),
           ('idempotent_adds', 'SELECT, INSERT, UPDATE, DELETE'),
           ('usage', 'SELECT, INSERT, UPDATE, DELETE')
         ) AS tables (name, permissions), string_to_table(permissions, ', ') AS permission
         WHERE CASE
           WHEN to_regclass(name) IS NULL THEN true
           WHEN permission = 'USAGE' THEN NOT has_sequence_privilege(to_regclass(name)::oid, permission)
           ELSE NOT has_table_privilege(to_regclass(name)::oid, permission)
         END`,
};

/**
 * Checks that the database answers, and that it has what requests need.
 * @returns what is missing; undefined if nothing is
 * @throws StoreError `unavailable` if the database does not answer
 */
export async function checkStore(database: Database): Promise<string | undefined> {
  const problems = await database.query<{ name: string; permission: string; exists: boolean }>(FIND_PROBLEMS, []);
  const [missing] = problems.filter(({ exists }) => !exists);
  if (missing) return `The database has no ${missing.name}: its migrations are pending.`;
  if (problems.length === 0) return undefined;
  return `The database role lacks ${problems.map(({ name, permission }) => `${permission} on ${name}`).join(', ')}.`;
}
