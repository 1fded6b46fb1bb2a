import { existsSync } from 'node:fs';
import { open, rename, rm } from 'node:fs/promises';
import { loadEnvironment } from '../environment.js';
import { StoreError } from '../errors.js';
import type { Database } from '../store/database.js';
import { migrate } from '../store/migrate.js';
import { exportStore, importStore, summarize, type OnProgress } from '../store/transfer.js';
import { createProgram, explain, runProgram, withStore, write } from './program.js';

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
  .action((file: string) =>
    withStore(loadEnvironment(), async (database, name) => {
      const tables = await writeFile(file, database);
      console.error(`store: exported ${summarize(tables)} from ${name}`);
    }),
  );

program
  .command('import')
  .description('reads a file into an empty store, which it creates if necessary')
  .argument('<file>', 'the file, or - for standard input')
  .action(async (file: string) => {
    const input = file === STANDARD ? process.stdin : (await open(file)).createReadStream();
    const chunks = input.setEncoding('utf8') as AsyncIterable<string>;
    const run = async (database: Database, name: string): Promise<void> => {
      await migrate(database, { onWait: console.error });
      const tables = await importStore(database, chunks, createProgress()).catch((error: unknown) => {
        throw error instanceof StoreError ? error : new Error(`${file} was not imported: ${explain(error)}`);
      });
      console.error(`store: imported ${summarize(tables)} into ${name}; count and checksum are right`);
    };
    // Standard input would keep the process alive until it ends.
    await withStore(loadEnvironment(), run, true).finally(() => input.destroy());
  });

/** Writes an export, under another name until it is complete. Overwrites no file. */
async function writeFile(file: string, database: Database): ReturnType<typeof exportStore> {
  if (file === STANDARD) return exportStore(database, write, createProgress());
  if (existsSync(file)) throw new Error(`${file} exists: choose another name`);
  const partial = `${file}.partial`;
  if (existsSync(partial))
    throw new Error(`${partial} is left of an interrupted export, or another one is writing it: delete it first`);
  const handle = await open(partial, 'wx', 0o600);
  try {
    const tables = await exportStore(database, (text) => handle.appendFile(text), createProgress());
    await handle.sync();
    if (existsSync(file)) throw new Error(`${file} has appeared meanwhile: choose another name`);
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
