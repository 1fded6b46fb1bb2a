import { join, resolve } from 'node:path';
import { Command } from 'commander';
import { unreachable } from '../backend.js';
import type { StoreConfig } from '../config.js';
import { StoreError } from '../errors.js';
import { loadEnvironment } from '../environment.js';
import { splitHosts } from '../setting-types.js';
import type { Database } from '../store/database.js';
import { describeSystemError, requireEmbeddedStore } from '../store/embedded-store.js';
import { createPgDatabase } from '../store/pg-database.js';
import { openDatabase } from '../store/store-backend.js';
import { isListening, SERVER_SOCKET } from '../store/store-lock.js';

/** A report takes longer than a request. */
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
  // Of a connection, the message names the address.
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
 * Runs `work` on the database of a store, through the process that has it open if it is embedded.
 * @throws Error for the operator, which names the store
 */
export async function withDatabase<T>(store: StoreConfig, work: (database: Database) => Promise<T>): Promise<T> {
  try {
    return await useDatabase(store, work);
  } catch (error) {
    throw new Error(`${explain(error)} (${describeStore(store)})`, { cause: error });
  }
}

async function useDatabase<T>(store: StoreConfig, work: (database: Database) => Promise<T>): Promise<T> {
  const isServed = store.kind === 'embedded' && (await isListening(join(store.directory, SERVER_SOCKET)));
  const url = isServed && `postgres://store@localhost/postgres?host=${encodeURIComponent(resolve(store.directory))}`;
  const database = url
    ? createPgDatabase({ url, pool: 1, prepare: false, statementTimeoutMs: TIMEOUT_MS })
    : await openDatabase(store, undefined, TIMEOUT_MS);
  try {
    return await work(database);
  } catch (error) {
    if (!(error instanceof StoreError)) throw error;
    if (store.kind === 'server') throw unreachable(`${store.setting} names a database`, error);
    throw new Error(`the process that has the store open does not answer: ${(error.cause as Error).message}`);
  } finally {
    await database.close();
  }
}

/** Loads the settings, and describes their store. */
export async function loadStore(mustExist = true) {
  const { backend, ...settings } = loadEnvironment();
  if (backend.kind === 'proxy')
    throw new Error('UPSTREAM_URL is set: animals and keys belong to the store behind the gateway');
  if (mustExist && backend.kind === 'embedded') await requireEmbeddedStore(backend.directory);
  return { ...settings, backend, store: describeStore(backend) };
}

/** Describes a store, without the password in its URL. */
function describeStore(store: StoreConfig): string {
  if (store.kind === 'embedded') return `the embedded store in ${store.directory}`;
  const urls = splitHosts(store.url).map((url) => new URL(url));
  return `the store on ${urls.map(({ host }) => host).join(',')}${urls[0]?.pathname ?? ''}`;
}
