import type { Writable } from 'node:stream';
import { Command } from 'commander';
import type { StoreConfig } from '../config.js';
import { splitHosts } from '../setting-types.js';
import type { Database } from '../store/database.js';
import { openDatabase, toConfigError } from '../store/store-backend.js';

/** A report on all keys may take longer than a request may. */
const REPORT_TIMEOUT_MS = 60_000;

/** Creates a command whose errors are one line each, which begins with its name. */
export function createProgram(name: string): Command {
  const toLine = (text: string): string => {
    const reason = text
      .trimEnd()
      .replace(/^error: /, '')
      .replace(/\.$/, '');
    return `${name}: ${reason.replace('\n', ' ')}; see --help\n`;
  };
  return new Command(name).configureOutput({ outputError: (text, write) => write(toLine(text)) });
}

/** Runs a command. If it fails, prints one line and sets the exit status. */
export async function runProgram(program: Command): Promise<void> {
  try {
    await program.parseAsync();
  } catch (thrown) {
    const error = toConfigError(thrown);
    console.error(`${program.name()}: ${error instanceof Error ? error.message : String(error)}`);
    process.exitCode = 1;
  }
}

/** Writes text. Rejects if it cannot be written, such as to a full disk or a closed pipe. */
export function write(stream: Writable, text: string): Promise<void> {
  // Without a listener, an error would end the process before `fail` is called.
  if (stream.listenerCount('error') === 0) stream.on('error', () => undefined);
  return new Promise((done, fail) => stream.write(text, (error) => (error ? fail(error) : done())));
}

/** Opens the database of a store, and closes it however `work` ends. */
export async function withDatabase<T>(store: StoreConfig, work: (database: Database) => Promise<T>): Promise<T> {
  const database = await openDatabase(store, undefined, REPORT_TIMEOUT_MS);
  const setting = store.kind === 'server' ? store.setting : undefined;
  try {
    return await work(database);
  } catch (error) {
    throw toConfigError(error, setting);
  } finally {
    await database.close();
  }
}

/** Describes a store, without the password in its URL. */
export function describeStore(store: StoreConfig): string {
  if (store.kind === 'embedded') return `the embedded store in ${store.directory}`;
  const urls = splitHosts(store.url).map((url) => new URL(url));
  return `the store on ${urls.map(({ host }) => host).join(',')}${urls[0]?.pathname ?? ''}`;
}
