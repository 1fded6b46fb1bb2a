import { fileURLToPath } from 'node:url';
import Postgrator from 'postgrator';
import type { Database } from './database.js';

const MIGRATIONS = fileURLToPath(new URL('../../migrations/*.sql', import.meta.url));

/** Any number will do, as long as every instance of this program takes the same one. */
const MIGRATION_LOCK = 7_236_012_030;

/**
 * Brings the schema up to date. Safe when several instances start at once: one does the work in one transaction, the
 * others wait for it and find nothing left to do.
 */
export async function migrate(database: Database): Promise<void> {
  await database.transaction(async (session) => {
    await session.execute(`SELECT pg_advisory_xact_lock(${MIGRATION_LOCK})`);
    const { rows } = await session.execute('SELECT current_database() AS name, current_schema() AS schema');
    const [{ name, schema } = {}] = rows;
    const postgrator = new Postgrator({
      migrationPattern: MIGRATIONS,
      driver: 'pg',
      database: String(name),
      schemaTable: 'schema_version',
      currentSchema: String(schema),
      newline: 'LF',
      execQuery: (text) => session.execute(text),
    });
    await postgrator.migrate();
    // Postgrator sets the search path of the session, and the session goes back to the pool.
    await session.execute('RESET search_path');
  });
}
