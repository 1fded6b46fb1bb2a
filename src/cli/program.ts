import { resolve } from 'node:path';
import { Command } from 'commander';
import type { StoreConfig } from '../config.js';
import { StoreError } from '../errors.js';
import { loadEnvironment } from '../environment.js';
import { splitHosts } from '../setting-types.js';
import type { Database } from '../store/database.js';
import { requireEmbeddedStore } from '../store/embedded-store.js';
import { createPgDatabase } from '../store/pg-database.js';
import { openDatabase, toConfigError } from '../store/store-backend.js';
import { isServed, withSocketDirectory } from '../store/store-lock.js';
import { describeSystemError } from '../system-error.js';

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
  const error = toConfigError(thrown) as NodeJS.ErrnoException;
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

/** Runs `work` on the database of a store, through the process that has it open if it is embedded. */
export async function withDatabase<T>(store: StoreConfig, work: (database: Database) => Promise<T>): Promise<T> {
  const use = (database: Database): Promise<T> => work(database).finally(() => database.close());
  if (store.kind === 'server') {
    return use(await openDatabase(store, undefined, TIMEOUT_MS)).catch((error: unknown) => {
      throw toConfigError(error, store.setting);
    });
  }
  if (!(await isServed(store.directory))) return use(await openDatabase(store));
  return withSocketDirectory(store.directory, (path) => {
    const url = `postgres://store@localhost/postgres?host=${encodeURIComponent(resolve(path))}`;
    return use(createPgDatabase({ url, pool: 1, prepare: false, statementTimeoutMs: TIMEOUT_MS }));
  }).catch((error: unknown) => {
    if (!(error instanceof StoreError)) throw error;
    throw new Error(
      `the process that has ${describeStore(store)} open does not answer: ${(error.cause as Error).message}`,
    );
  });
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
