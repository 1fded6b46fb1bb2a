import { join } from 'node:path';
import { Command } from 'commander';
import { unreachable } from '../backend.js';
import type { Config, StoreConfig } from '../config.js';
import { StoreError } from '../errors.js';
import { splitHosts } from '../setting-types.js';
import type { Database } from '../store/database.js';
import { describeSystemError, requireEmbeddedStore } from '../store/embedded-store.js';
import { createPgDatabase } from '../store/pg-database.js';
import { openDatabase } from '../store/store-backend.js';
import { isListening, SERVER_SOCKET, toSocketDirectory } from '../store/store-lock.js';

/** The longest time for a statement of a command. */
const TIMEOUT_MS = 60_000;

/** Creates a command whose errors are one line each. */
export function createProgram(name: string): Command {
  const outputError = (text: string, write: (line: string) => void): void => {
    const reason = text.replace(/^error: /, '').replace(/\.?\n$/, '');
    write(`${name}: ${reason.replace('\n', ' ')}; see --help\n`);
  };
  return new Command(name).configureOutput({ outputError });
}

/** Runs a command. If it fails, the reason is one line. */
export async function runProgram(program: Command): Promise<void> {
  try {
    await program.parseAsync();
  } catch (error) {
    console.error(`${program.name()}: ${explain(error)}`);
    process.exitCode = 1;
  }
}

export function explain(thrown: unknown): string {
  const error = thrown as NodeJS.ErrnoException;
  // The message of a connection names the address.
  if (error.errno === undefined || error.syscall === 'connect') return error.message;
  return `${error.path === undefined ? '' : `${error.path}: `}${describeSystemError(error)}`;
}

/** Writes to standard output. Rejects if that is impossible, as on a full disk or a closed pipe. */
export function write(text: string): Promise<void> {
  const { stdout } = process;
  // Without a listener, an error would end the process before `fail` is called.
  if (stdout.listenerCount('error') === 0) stdout.on('error', () => undefined);
  return new Promise((done, fail) => stdout.write(text, (error) => (error ? fail(error) : done())));
}

/**
 * Runs `work` on the store that the settings name.
 * @param mayCreate - whether to create an embedded store if there is none
 * @throws Error for the operator, which names the store
 */
export async function withStore<T>(
  { backend }: Pick<Config, 'backend'>,
  work: (database: Database, name: string) => Promise<T>,
  mayCreate = false,
): Promise<T> {
  if (backend.kind === 'proxy')
    throw new Error('UPSTREAM_URL is set: animals and keys belong to the store behind the gateway');
  if (!mayCreate && backend.kind === 'embedded') await requireEmbeddedStore(backend.directory);
  const name = describeStore(backend);
  try {
    const database = await openForCommand(backend);
    return await work(database, name).finally(() => database.close());
  } catch (thrown) {
    const setting = backend.kind === 'server' ? backend.setting : 'DATA_DIR';
    const error = thrown instanceof StoreError ? unreachable(`${setting} names a database`, thrown) : thrown;
    throw new Error(`${explain(error)} (${name})`, { cause: error });
  }
}

/** Opens a store, through the process that has it open if it is embedded. */
export async function openForCommand(store: StoreConfig): Promise<Database> {
  if (store.kind === 'server') return openDatabase(store, undefined, TIMEOUT_MS);
  const directory = toSocketDirectory(store.directory);
  const serves = () => isListening(join(directory, SERVER_SOCKET));
  if (!(await serves())) {
    try {
      return await openDatabase(store);
    } catch (error) {
      // A server may have started meanwhile.
      if (!(await serves())) throw error;
    }
  }
  // Names all that pg would otherwise take from PGPORT and PGSSLMODE.
  const url = `postgres://store@localhost:5432/postgres?host=${encodeURIComponent(directory)}&sslmode=disable`;
  return createPgDatabase({ url, pool: 1, prepare: false, statementTimeoutMs: TIMEOUT_MS });
}

function describeStore(store: StoreConfig): string {
  if (store.kind === 'embedded') return `the embedded store in ${store.directory}`;
  const urls = splitHosts(store.url).map((url) => new URL(url));
  return `the store on ${urls.map(({ host, searchParams }) => searchParams.get('host') ?? host).join(',')}${urls[0]?.pathname ?? ''}`;
}
