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
    await withDatabase(backend, async (database) => {
      if (check) {
        const pending = await listPendingMigrations(database);
        report('pending', pending);
        if (pending.length > 0) process.exitCode = 1;
      } else {
        report('applied', await migrate(database, { waitMs: startTimeoutMs, onWait: console.error }));
      }
    });
  });

function report(state: string, files: readonly string[]): void {
  if (files.length === 0) console.log('No migrations are pending.');
  for (const file of files) console.log(`${state}: ${file}`);
}

void runProgram(program);
