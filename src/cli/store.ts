#!/usr/bin/env node
import { existsSync } from 'node:fs';
import { open, rename, rm } from 'node:fs/promises';
import type { StoreConfig } from '../config.js';
import { loadEnvironment } from '../environment.js';
import { StoreError } from '../errors.js';
import type { Database } from '../store/database.js';
import { requireEmbeddedStore } from '../store/embedded-store.js';
import { migrate } from '../store/migrate.js';
import { exportStore, importStore, summarize } from '../store/transfer.js';
import { createProgram, describeStore, explain, runProgram, withDatabase, write } from './program.js';

const STANDARD = '-';

const program = createProgram('store').description(
  'Exports and imports the animals, the keys as hashes, their log and their usage, as one file.',
);

program
  .command('export')
  .description('writes the store to a new file')
  .argument('<file>', 'the file, or - for standard output')
  .action(async (file: string) => {
    const { store, config } = selectStore();
    if (config.kind === 'embedded') await requireEmbeddedStore(config.directory);
    const tables = await withDatabase(config, (database) => writeFile(file, database));
    console.error(`store: exported ${summarize(tables)} from ${store}`);
  });

program
  .command('import')
  .description('reads a file into an empty store, which it creates if necessary')
  .argument('<file>', 'the file, or - for standard input')
  .action(async (file: string) => {
    const { store, config } = selectStore();
    const input = file === STANDARD ? process.stdin : (await open(file)).createReadStream();
    const chunks = input.setEncoding('utf8');
    const tables = await withDatabase(config, async (database) => {
      await migrate(database, { onWait: console.error });
      return importStore(database, chunks as AsyncIterable<string>).catch((error: unknown) => {
        throw error instanceof StoreError ? error : new Error(`${file} was not imported: ${explain(error)}`);
      });
    });
    console.error(`store: imported ${summarize(tables)} into ${store}; count and checksum are right`);
  });

function selectStore(): { store: string; config: StoreConfig } {
  const { backend } = loadEnvironment();
  if (backend.kind === 'proxy') throw new Error('UPSTREAM_URL is set: the animals are in the store behind the gateway');
  return { store: describeStore(backend), config: backend };
}

/** Writes an export, under another name until it is complete. Overwrites no file. */
async function writeFile(file: string, database: Database): ReturnType<typeof exportStore> {
  if (file === STANDARD) return exportStore(database, (text) => write(process.stdout, text));
  if (existsSync(file)) throw new Error(`${file} exists: choose another name`);
  const partial = `${file}.partial`;
  const handle = await open(partial, 'wx', 0o600);
  try {
    const stream = handle.createWriteStream({ autoClose: false });
    const tables = await exportStore(database, (text) => write(stream, text));
    await handle.sync();
    await rename(partial, file);
    return tables;
  } catch (error) {
    await rm(partial, { force: true });
    throw error;
  } finally {
    await handle.close();
  }
}

void runProgram(program);
