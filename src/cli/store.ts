#!/usr/bin/env node
import { existsSync } from 'node:fs';
import { open, rename, rm } from 'node:fs/promises';
import { StoreError } from '../errors.js';
import type { Database } from '../store/database.js';
import { migrate } from '../store/migrate.js';
import { exportStore, importStore, summarize, type OnProgress } from '../store/transfer.js';
import { createProgram, explain, loadStore, runProgram, withDatabase, write } from './program.js';

const STANDARD = '-';
/** How often a transfer says how far it is, in milliseconds. */
const PROGRESS_MS = 5_000;

const program = createProgram('store').description(
  'Exports and imports the animals, the keys as hashes, their log and their usage, as one file.',
);

program
  .command('export')
  .description('writes the store to a new file')
  .argument('<file>', 'the file, or - for standard output')
  .action(async (file: string) => {
    const { store, backend } = await loadStore();
    const tables = await withDatabase(backend, (database) => writeFile(file, database));
    console.error(`store: exported ${summarize(tables)} from ${store}`);
  });

program
  .command('import')
  .description('reads a file into an empty store, which it creates if necessary')
  .argument('<file>', 'the file, or - for standard input')
  .action(async (file: string) => {
    const { store, backend } = await loadStore(false);
    const input = file === STANDARD ? process.stdin : (await open(file)).createReadStream();
    const chunks = input.setEncoding('utf8');
    const tables = await withDatabase(backend, async (database) => {
      await migrate(database, { onWait: console.error });
      return importStore(database, chunks as AsyncIterable<string>, createProgress()).catch((error: unknown) => {
        throw error instanceof StoreError ? error : new Error(`${file} was not imported: ${explain(error)}`);
      });
    });
    console.error(`store: imported ${summarize(tables)} into ${store}; count and checksum are right`);
  });

/** Writes an export, under another name until it is complete. Overwrites no file. */
async function writeFile(file: string, database: Database): ReturnType<typeof exportStore> {
  if (file === STANDARD) return exportStore(database, write, createProgress());
  if (existsSync(file)) throw new Error(`${file} exists: choose another name`);
  const partial = `${file}.partial`;
  const handle = await open(partial, 'wx', 0o600);
  try {
    const tables = await exportStore(database, (text) => handle.appendFile(text), createProgress());
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

function createProgress(): OnProgress {
  const startedAt = performance.now();
  let toldAt = startedAt;
  return (done, all) => {
    const now = performance.now();
    if (now - toldAt < PROGRESS_MS || done === all) return;
    toldAt = now;
    const secondsLeft = Math.ceil((((now - startedAt) / done) * (all - done)) / 1_000);
    console.error(`store: ${done} of ${all} rows, about ${secondsLeft} s left`);
  };
}

void runProgram(program);
