import { accessSync, constants, existsSync, readdirSync, readFileSync } from 'node:fs';
import { rename, rm, stat } from 'node:fs/promises';
import type { Socket } from 'node:net';
import { join } from 'node:path';
import { setFlagsFromString } from 'node:v8';
import type { Transaction } from '@electric-sql/pglite';
import { ConfigError } from '../config.js';
import type { Log } from '../observability/log.js';
import { describeSystemError } from '../system-error.js';
import type { Connection, Database } from './database.js';
import { createStoreFiles } from './store-files.js';
import { lockStore } from './store-lock.js';
import { serveClient } from './postgres-socket.js';

/** An embedded database. */
interface EmbeddedDatabase extends Database {
  /** Serves a connection that speaks PostgreSQL's protocol. */
  readonly serve: (socket: Socket) => void;
}

/**
 * Opens the embedded store in a directory, locks it for this process, and serves other processes of this user on a socket
 * in the directory.
 * @throws ConfigError if another process has the lock, or the directory cannot be used
 */
export async function openEmbeddedDatabase(directory: string, log?: Log): Promise<Database> {
  const lock = await lockStore(directory).catch((error: unknown) => {
    throw error instanceof ConfigError ? error : cannotUse(directory, error);
  });
  const { serve, ...database } = await openFiles(directory, log).catch(async (error: unknown) => {
    await lock.release();
    throw error;
  });
  await lock.serve(serve);
  return {
    ...database,
    async close() {
      lock.disconnect();
      await database.close();
      await lock.release();
    },
  };
}

function cannotUse(directory: string, error: unknown): ConfigError {
  return new ConfigError(`DATA_DIR ${JSON.stringify(directory)} cannot be used: ${describeSystemError(error)}`);
}

/**
 * @param hint - what the operator can do
 * @throws Error if the directory has no store, for commands that do not create one
 */
export async function requireEmbeddedStore(directory: string, hint = ''): Promise<void> {
  if (!(await exists(directory, 'postgres')))
    throw new Error(`there is no store in DATA_DIR ${JSON.stringify(directory)}${hint}`);
}

/** @throws ConfigError if the directory cannot be read */
async function exists(directory: string, name: string): Promise<boolean> {
  try {
    await stat(join(directory, name));
    return true;
  } catch (error) {
    if (['ENOENT', 'ENOTDIR'].includes((error as NodeJS.ErrnoException).code ?? '')) return false;
    throw cannotUse(directory, error);
  }
}

/** The major version of PostgreSQL in PGlite. */
const POSTGRES_VERSION = '18';
/** Files without which PGlite would create a new store, or end the process. */
const NEEDED = ['PG_VERSION', 'base', 'global/pg_control', 'pg_wal'];

/** Opens the database's files. A new store gets its name when its files are complete. */
async function openFiles(directory: string, log?: Log): Promise<EmbeddedDatabase> {
  const files = join(directory, 'postgres');
  if (await exists(directory, 'postgres')) requireSoundFiles(files, directory);
  else {
    log?.info(`creating a new store in ${directory}`);
    const unfinished = `${files}.new`;
    await rm(unfinished, { recursive: true, force: true });
    await createStoreFiles(unfinished).catch((error: unknown) => {
      throw cannotUse(directory, error);
    });
    await rename(unfinished, files);
  }
  return openPgliteDatabase(files).catch((error: unknown) => {
    throw damaged(directory, `: ${String(error)}`);
  });
}

/** @throws ConfigError if files are missing, cannot be written, or are of another major version of PostgreSQL */
function requireSoundFiles(files: string, directory: string): void {
  requireAccess(files, directory);
  const missing = NEEDED.filter((name) => !existsSync(join(files, name)));
  if (missing.length > 0) throw damaged(directory, ` without ${missing.join(', ')}`);
  const version = readFileSync(join(files, 'PG_VERSION'), 'utf8').trim();
  if (version === POSTGRES_VERSION) return;
  throw new ConfigError(
    `DATA_DIR ${JSON.stringify(directory)} has a store of PostgreSQL ${version}, but this version of the program needs ` +
      `${POSTGRES_VERSION}. Run "store export" with the version that wrote it, then "store import" with this one`,
  );
}

/** @throws ConfigError naming the first file that this user may not read and write */
function requireAccess(files: string, directory: string): void {
  let name = '';
  try {
    accessSync(files, constants.R_OK | constants.W_OK | constants.X_OK);
    for (name of readdirSync(files, { encoding: 'utf8', recursive: true }))
      accessSync(join(files, name), constants.R_OK | constants.W_OK);
  } catch (error) {
    const what = `has a store that this user cannot read and write: ${describeSystemError(error)}`;
    throw new ConfigError(`DATA_DIR ${JSON.stringify(directory)} ${what} (${join('postgres', name)})`);
  }
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
export async function openPgliteDatabase(dataDir: string): Promise<EmbeddedDatabase> {
  // The optimizing compiler of Node 24 takes 600 MB for one function of PGlite, and makes statements only a tenth faster.
  setFlagsFromString('--no-wasm-tier-up');
  setFlagsFromString('--no-wasm-dynamic-tiering');
  // Imported on demand, so that other backends start faster.
  const { PGlite, types } = await import('@electric-sql/pglite');
  // PGlite makes a decoder at the start and after every error.
  globalThis.TextDecoder = ExactTextDecoder;
  const database = await PGlite.create({
    dataDir,
    // By default PGlite returns an int8 as a number or a bigint, depending on its size. The program uses text.
    parsers: { [types.INT8]: (text: string) => text },
  });
  let last: Promise<unknown> = Promise.resolve();
  /** Runs one `work` after the other. */
  const inTurn = <T>(work: () => Promise<T>): Promise<T> => {
    const turn = last.then(work);
    last = turn.catch(() => undefined);
    return turn;
  };
  const session = {
    run: (message: Uint8Array) => database.execProtocolRaw(message),
    alone: (work: () => Promise<void>) => inTurn(() => database.runExclusive(work)),
  };
  return {
    async query<Row>({ text }: { text: string }, values: readonly unknown[]) {
      return (await database.query<Row>(text, values as unknown[])).rows;
    },
    transaction: (work) => inTurn(() => database.transaction((transaction) => work(toSession(transaction)))),
    serve: (socket) => void serveClient(socket, session, POSTGRES_VERSION),
    close: () => database.close(),
  };
}

function toSession(connection: Pick<Transaction, 'exec'>): Connection {
  return { execute: async (text) => ({ rows: (await connection.exec(text)).at(-1)?.rows ?? [] }) };
}
