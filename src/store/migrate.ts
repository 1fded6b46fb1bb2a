import { fileURLToPath } from 'node:url';
import Postgrator from 'postgrator';
import type { Database } from './database.js';

const MIGRATIONS = fileURLToPath(new URL('../../migrations/*.sql', import.meta.url));

/** The number is arbitrary, but every instance must use the same one. */
const MIGRATION_LOCK = 7_236_012_030;

/**
 * Runs the migrations that the database lacks, in one transaction. If several instances start at once, one migrates; the
 * others wait for it and then have nothing to do.
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
    // Postgrator sets the session's search path, and the pool reuses the session.
    await session.execute('RESET search_path');
  });
}
