#!/usr/bin/env node
import { loadEnvironment } from '../environment.js';
import { requireEmbeddedStore } from '../store/embedded-store.js';
import { listPendingMigrations, migrate } from '../store/migrate.js';
import { createProgram, runProgram, withDatabase } from './program.js';

const program = createProgram('migrate')
  .description('Applies pending migrations to the store that DATABASE_URL or DATA_DIR names.')
  .option('--check', 'only report what is pending; the exit status is 1 if anything is')
  .action(async ({ check = false }: { check?: boolean }) => {
    const { backend, startTimeoutMs } = loadEnvironment();
    if (backend.kind === 'proxy') {
      console.log('UPSTREAM_URL is set: a gateway has no database to migrate.');
      return;
    }
    if (check && backend.kind === 'embedded') await requireEmbeddedStore(backend.directory);
    const files = await withDatabase(backend, (database) =>
      check ? listPendingMigrations(database) : migrate(database, { waitMs: startTimeoutMs, onWait: console.error }),
    );
    if (files.length === 0) console.log('No migrations are pending.');
    for (const file of files) console.log(`${check ? 'pending' : 'applied'}: ${file}`);
    if (check && files.length > 0) process.exitCode = 1;
  });

void runProgram(program);
