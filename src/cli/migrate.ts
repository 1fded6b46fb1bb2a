import { loadEnvironment } from '../environment.js';
import type { Database } from '../store/database.js';
import { listPendingMigrations, migrate } from '../store/migrate.js';
import { createProgram, runProgram, withStore, write } from './program.js';

const program = createProgram('migrate')
  .description('Applies pending migrations to the store that DATABASE_URL or DATA_DIR names.')
  .option('--check', 'only report what is pending; the exit status is 1 if anything is')
  .action(async ({ check = false }: { check?: boolean }) => {
    const config = loadEnvironment();
    if (config.backend.kind === 'proxy') {
      return write('UPSTREAM_URL is set: a gateway has no database to migrate.\n');
    }
    const options = { waitMs: config.startTimeoutMs, onWait: console.error };
    const run = (database: Database) => (check ? listPendingMigrations(database) : migrate(database, options));
    const files = await withStore(config, run, !check);
    const lines = files.map((file) => `${check ? 'pending' : 'applied'}: ${file}\n`);
    await write(lines.join('') || 'No migrations are pending.\n');
    if (check && files.length > 0) process.exitCode = 1;
  });

void runProgram(program);
