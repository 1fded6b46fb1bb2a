import { readFileSync } from 'node:fs';
import { mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
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
/** A line of JSON with the name and size of each file, or null for a directory, and then the bytes of all files. */
const ARCHIVE = fileURLToPath(new URL('../../dist/store-files.gz', import.meta.url));

/**
 * Opens and locks the embedded store in a directory, and serves other processes of this user on a socket in it.
 * @throws ConfigError if another process has the lock, or the directory cannot be used
 */
export async function openEmbeddedDatabase(directory: string, log?: Log): Promise<Database> {
  const refuse = (error: unknown): never => refuseDirectory(directory, error);
  const lock = await lockStore(directory).catch(refuse);
  try {
    const version = await findVersion(directory);
    if (version === undefined) await createStore(directory, log).catch(refuse);
    else if (version !== POSTGRES_VERSION) {
      const remedy = 'Run "store export" with the version that wrote it, then "store import" with this one';
      const needed = `but this version of the program needs ${POSTGRES_VERSION}. ${remedy}`;
      throw unusable(directory, `has a store of PostgreSQL ${version}, ${needed}`);
    }
    const { serve, ...database } = await openPgliteDatabase(join(directory, FILES)).catch((error: unknown) => {
      // PGlite does not say why.
      const causes = 'its files are damaged, this user cannot read and write them, or their disk needs more space';
      throw unusable(directory, `has a store that cannot be opened: ${causes} (${String(error)})`);
    });
    await lock.serve(serve);
    return { ...database, close: () => lock.release(() => database.close()) };
  } catch (error) {
    await lock.release();
    throw error;
  }
}

/** For commands that do not create a store. */
export async function requireEmbeddedStore(directory: string): Promise<void> {
  if ((await findVersion(directory)) !== undefined) return;
  throw new Error(`there is no store in DATA_DIR ${JSON.stringify(directory)}: start the program to create one`);
}

/** Finds the version of PostgreSQL that wrote a store. Undefined if there is none. */
async function findVersion(directory: string): Promise<string | undefined> {
  try {
    return (await readFile(join(directory, FILES, 'PG_VERSION'), 'utf8')).trim();
  } catch (error) {
    if (['ENOENT', 'ENOTDIR'].includes((error as NodeJS.ErrnoException).code ?? '')) return undefined;
    return refuseDirectory(directory, error);
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
  const archive = gunzipSync(readFileSync(ARCHIVE));
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

/** What the operating system says, such as `permission denied`, without the name and arguments of the call. */
export function describeSystemError(error: unknown): string {
  const { errno = 0, message } = error as NodeJS.ErrnoException;
  return getSystemErrorMap().get(errno)?.[1] ?? message;
}

function refuseDirectory(directory: string, error: unknown): never {
  throw error instanceof ConfigError ? error : unusable(directory, `cannot be used: ${describeSystemError(error)}`);
}

function unusable(directory: string, why: string): ConfigError {
  return new ConfigError(`DATA_DIR ${JSON.stringify(directory)} ${why}`);
}

/** Unlike its base, this keeps a byte order mark (U+FEFF) at the beginning of a text, such as a name. */
class ExactTextDecoder extends TextDecoder {
  constructor(...[label, options]: ConstructorParameters<typeof TextDecoder>) {
    super(label, { ignoreBOM: true, ...options });
  }
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
  // PGlite makes a decoder at the start and after every error.
  globalThis.TextDecoder = ExactTextDecoder;
  const database = await PGlite.create({
    dataDir,
    // By default, PGlite returns a number or a bigint, depending on the size.
    parsers: { [types.INT8]: (text: string) => text },
  });
  let last: Promise<unknown> = Promise.resolve();
  /** A transaction of this process and the statements of another one must not mix. */
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
          work({ execute: async (text) => ({ rows: (await transaction.exec(text)).at(-1)?.rows ?? [] }) }),
        ),
      ),
    serve: (socket) => void serveClient(socket, session, POSTGRES_VERSION),
    close: () => database.close(),
  };
}
