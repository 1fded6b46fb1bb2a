import { existsSync } from 'node:fs';
import { mkdir, readFile, rm, statfs, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Transaction } from '@electric-sql/pglite';
import { ConfigError } from '../config.js';
import { StoreError } from '../errors.js';
import type { Connection, Database } from './database.js';
import { acquireStoreLock } from './store-lock.js';

/** https://www.postgresql.org/docs/current/errcodes-appendix.html */
const DISK_FULL = '53100';
/** After a statement has found the disk full, there must be this much space again. */
const NEEDED_BYTES = 1_048_576;

/**
 * Opens the embedded store in a directory and locks it for this process. While the disk is full, statements that need
 * space fail as unavailable. Reads still work.
 * @throws ConfigError if another process has the lock, or the directory cannot be used
 */
export async function openEmbeddedDatabase(directory: string): Promise<Database> {
  const release = await acquireStoreLock(directory).catch((error: unknown) => {
    if (error instanceof ConfigError || !(error instanceof Error)) throw error;
    throw new ConfigError(`DATA_DIR ${JSON.stringify(directory)} cannot be used: ${error.message}`);
  });
  const database = await openFiles(directory).catch(async (error: unknown) => {
    await release();
    throw error;
  });
  let isFull = false;
  return {
    ...database,
    async query<Row>(...parameters: Parameters<Database['query']>) {
      try {
        return await database.query<Row>(...parameters);
      } catch (error) {
        if ((error as { code?: unknown }).code !== DISK_FULL) throw error;
        isFull = true;
        throw diskFull(error);
      }
    },
    async checkSpace() {
      if (!isFull) return;
      const { bavail, bsize } = await statfs(directory);
      if (bavail * bsize < NEEDED_BYTES) throw diskFull();
      isFull = false;
    },
    async close() {
      await database.close();
      await release();
    },
  };
}

function diskFull(cause?: unknown): StoreError {
  return new StoreError('unavailable', 'The disk of the store is full.', { cause, retryAfter: 5 });
}

/**
 * @param hint - what the operator can do
 * @throws Error if the directory has no store, for commands that do not create one
 */
export function requireEmbeddedStore(directory: string, hint = ''): void {
  if (!existsSync(join(directory, 'postgres')))
    throw new Error(`there is no store in DATA_DIR ${JSON.stringify(directory)}${hint}`);
}

/** The major version of PostgreSQL in PGlite. */
const POSTGRES_VERSION = '18';
/** Files without which PGlite would create a new store, or end the process. */
const NEEDED = ['PG_VERSION', 'base', 'global/pg_control', 'pg_wal'];

/**
 * Opens the database's files. A marker file exists while they are first created. A start that finds the marker deletes
 * the files and creates them again, because their creation was interrupted.
 */
async function openFiles(directory: string): Promise<Database> {
  const files = join(directory, 'postgres');
  const marker = join(directory, 'postgres.incomplete');
  if (existsSync(marker)) await rm(files, { recursive: true, force: true });
  if (existsSync(files)) await requireSoundFiles(files, directory);
  else {
    await writeFile(marker, '');
    await mkdir(files, { mode: 0o700 });
  }
  const database = await openPgliteDatabase(files).catch((error: unknown) => {
    throw damaged(directory, `: ${String(error)}`);
  });
  await rm(marker, { force: true });
  return database;
}

/** @throws ConfigError if files are missing, or another major version of PostgreSQL wrote them */
async function requireSoundFiles(files: string, directory: string): Promise<void> {
  const missing = NEEDED.filter((name) => !existsSync(join(files, name)));
  if (missing.length > 0) throw damaged(directory, ` without ${missing.join(', ')}`);
  const version = (await readFile(join(files, 'PG_VERSION'), 'utf8')).trim();
  if (version === POSTGRES_VERSION) return;
  throw new ConfigError(
    `DATA_DIR ${JSON.stringify(directory)} has a store of PostgreSQL ${version}, but this version of the program needs ` +
      `${POSTGRES_VERSION}. Run "store export" with the version that wrote it, then "store import" with this one`,
  );
}

function damaged(directory: string, what: string): ConfigError {
  const restore = 'Restore a backup, or start with another DATA_DIR';
  return new ConfigError(`DATA_DIR ${JSON.stringify(directory)} has a damaged store${what}. ${restore}`);
}

/** By default, a decoder removes a byte order mark (U+FEFF) from the beginning of a text, where it may be part of a name. */
class ExactTextDecoder extends TextDecoder {
  constructor(...[label, options]: ConstructorParameters<typeof TextDecoder>) {
    super(label, { ignoreBOM: true, ...options });
  }
}

/**
 * Opens the embedded PostgreSQL.
 * @param dataDir - the directory of its files, or `memory://`
 */
export async function openPgliteDatabase(dataDir: string): Promise<Database> {
  // Imported on demand, so that other backends start faster.
  const { PGlite, types } = await import('@electric-sql/pglite');
  // PGlite makes a decoder at the start and after every error.
  globalThis.TextDecoder = ExactTextDecoder;
  const database = await PGlite.create({
    dataDir,
    // By default PGlite returns an int8 as a number or a bigint, depending on its size. The program uses text.
    parsers: { [types.INT8]: (text: string) => text },
  });
  return {
    async query<Row>({ text }: { text: string }, values: readonly unknown[]) {
      return (await database.query<Row>(text, values as unknown[])).rows;
    },
    transaction: (work) => database.transaction((transaction) => work(toSession(transaction))),
    close: () => database.close(),
  };
}

function toSession(connection: Pick<Transaction, 'exec'>): Connection {
  return { execute: async (text) => ({ rows: (await connection.exec(text)).at(-1)?.rows ?? [] }) };
}
