import { accessSync, constants, existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { mkdir, rename, rm, stat, statfs, writeFile } from 'node:fs/promises';
import type { Socket } from 'node:net';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { getSystemErrorMap } from 'node:util';
import { setFlagsFromString } from 'node:v8';
import { gunzipSync } from 'node:zlib';
import { ConfigError } from '../config.js';
import type { Log } from '../observability/log.js';
import type { Database, Statement } from './database.js';
import { serveClient } from './postgres-socket.js';
import { lockStore } from './store-lock.js';

const FILES = 'postgres';
const POSTGRES_VERSION = '18';
/** In a line of JSON, the name and size of each file and, with null, each directory. Then the bytes of all files. */
const ARCHIVE = fileURLToPath(new URL('../../dist/store-files.gz', import.meta.url));
/** More than it has. */
const ARCHIVE_BYTES = 64 * 1_024 * 1_024;
/** Files without which PGlite would create a new store, or end the process. */
const NEEDED = ['PG_VERSION', 'base', 'global/pg_control', 'pg_wal'];
/** PostgreSQL may need a new file of this size when it opens a store. */
const WAL_SEGMENT_BYTES = 16 * 1_024 * 1_024;

/**
 * Opens and locks the embedded store in a directory. A server, which has a log, serves other processes of this user on
 * a socket in it. A command does not: it would end before them.
 * @throws ConfigError if another process has the lock, or the directory cannot be used
 */
export async function openEmbeddedDatabase(directory: string, log?: Log): Promise<Database> {
  const lock = await lockStore(directory).catch(refuseDirectory(directory));
  try {
    if (await hasStore(directory)) requireSoundFiles(directory, lock.path);
    else await createStore(directory, log).catch(refuseDirectory(directory));
    const { serve, ...database } = await openPgliteDatabase(join(directory, FILES)).catch(async (error: unknown) => {
      // PGlite does not say that it could not write.
      const { bavail, bsize } = await statfs(directory);
      if (bavail * bsize < WAL_SEGMENT_BYTES)
        throw unusable(directory, 'has a store that needs more space on its disk');
      throw damaged(directory, `: ${String(error)}`);
    });
    if (log) await lock.serve(serve);
    return { ...database, close: () => lock.release(() => database.close()) };
  } catch (error) {
    await lock.release();
    throw error;
  }
}

/** @throws Error if the directory has no store, for commands that do not create one */
export async function requireEmbeddedStore(directory: string): Promise<void> {
  if (await hasStore(directory)) return;
  throw new Error(`there is no store in DATA_DIR ${JSON.stringify(directory)}: start the program to create one`);
}

/** @throws ConfigError if the directory cannot be read */
async function hasStore(directory: string): Promise<boolean> {
  try {
    await stat(join(directory, FILES));
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return false;
    return refuseDirectory(directory)(error);
  }
}

/**
 * Creates the files of an empty database, and gives them their name when they are complete. They come from the build
 * (`scripts/create-store-files.mjs`), because making them takes PGlite 800 MB of memory, which the process keeps.
 */
async function createStore(directory: string, log?: Log): Promise<void> {
  log?.info(`creating a new store in ${directory}`);
  const unfinished = join(directory, `${FILES}.new`);
  await rm(unfinished, { recursive: true, force: true });
  await mkdir(unfinished, { mode: 0o700 });
  // In one chunk, whose memory is then freed: many small ones would stay with the process.
  const archive = gunzipSync(readFileSync(ARCHIVE), { chunkSize: ARCHIVE_BYTES });
  let end = archive.indexOf('\n');
  const entries = JSON.parse(archive.toString('utf8', 0, end)) as [name: string, size: number | null][];
  end += 1;
  for (const [name, size] of entries) {
    const path = join(unfinished, name);
    if (size === null) await mkdir(path, { mode: 0o700 });
    else await writeFile(path, archive.subarray(end, (end += size)), { mode: 0o600 });
  }
  await rename(unfinished, join(directory, FILES));
}

/**
 * @param own - a file that this process has created
 * @throws ConfigError if files are missing, cannot be written, or are of another user or major version of PostgreSQL
 */
function requireSoundFiles(directory: string, own: string): void {
  const files = join(directory, FILES);
  // Whatever root creates among them, their owner could not open.
  if (process.getuid?.() === 0 && statSync(files).uid !== statSync(own).uid)
    throw unusable(directory, 'has a store of another user: run this as that user');
  let name = '';
  try {
    accessSync(files, constants.R_OK | constants.W_OK | constants.X_OK);
    for (name of readdirSync(files, { encoding: 'utf8', recursive: true }))
      accessSync(join(files, name), constants.R_OK | constants.W_OK);
  } catch (error) {
    const reason = `${describeSystemError(error)} (${join(FILES, name)})`;
    throw unusable(directory, `has a store that this user cannot read and write: ${reason}`);
  }
  const missing = NEEDED.filter((needed) => !existsSync(join(files, needed)));
  if (missing.length > 0) throw damaged(directory, ` without ${missing.join(', ')}`);
  const version = readFileSync(join(files, 'PG_VERSION'), 'utf8').trim();
  if (version === POSTGRES_VERSION) return;
  throw unusable(
    directory,
    `has a store of PostgreSQL ${version}, but this version of the program needs ${POSTGRES_VERSION}. ` +
      'Run "store export" with the version that wrote it, then "store import" with this one',
  );
}

/** What the operating system says, such as `permission denied`, without the name and arguments of the call. */
export function describeSystemError(error: unknown): string {
  const { errno = 0, message } = error as NodeJS.ErrnoException;
  return getSystemErrorMap().get(errno)?.[1] ?? message;
}

function refuseDirectory(directory: string): (error: unknown) => never {
  return (error) => {
    if (error instanceof ConfigError) throw error;
    throw unusable(directory, `cannot be used: ${describeSystemError(error)}`);
  };
}

function damaged(directory: string, what: string): ConfigError {
  return unusable(directory, `has a damaged store${what}. Restore a backup, or start with another DATA_DIR`);
}

function unusable(directory: string, why: string): ConfigError {
  return new ConfigError(`DATA_DIR ${JSON.stringify(directory)} ${why}`);
}

/**
 * Opens the embedded PostgreSQL. `serve` serves a connection that speaks PostgreSQL's protocol.
 * @param dataDir - the directory of its files, or `memory://`
 */
export async function openPgliteDatabase(dataDir: string): Promise<Database & { serve: (socket: Socket) => void }> {
  // The optimizing compiler would take 600 MB for one function of PGlite.
  setFlagsFromString('--no-wasm-tier-up');
  setFlagsFromString('--no-wasm-dynamic-tiering');
  // Imported on demand, so that other backends start faster.
  const { PGlite, types } = await import('@electric-sql/pglite');
  const database = await PGlite.create({
    dataDir,
    // By default PGlite returns an int8 as a number or a bigint, depending on its size. The program uses text.
    parsers: { [types.INT8]: (text: string) => text },
  });
  let last: Promise<unknown> = Promise.resolve();
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
    async query<Row>({ text, read }: Statement, values: readonly unknown[]) {
      const { rows } = await database.query(text, values as unknown[], { rowMode: read && 'array' });
      return (read ? (rows as string[][]).map(read) : rows) as Row[];
    },
    transaction: (work) =>
      inTurn(() =>
        database.transaction((transaction) =>
          work(async (text) => ({ rows: (await transaction.exec(text)).at(-1)?.rows ?? [] })),
        ),
      ),
    serve: (socket) => void serveClient(socket, session, POSTGRES_VERSION),
    close: () => database.close(),
  };
}
