import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { open, readdir, rename, rm, symlink } from 'node:fs/promises';
import { connect, createServer, type Socket } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { ConfigError } from '../config.js';
import { makeDirectory } from '../make-directory.js';

/** The name of the socket at which `psql` and `pg` look for a server: https://www.postgresql.org/docs/current/libpq-connect.html */
const SERVER_SOCKET = '.s.PGSQL.5432';
/** The longest path of a directory in which every operating system accepts the names of these sockets, in bytes. */
const MAX_PATH = 76;
const ATTEMPTS = 10;

/** The lock of a store, and the socket of the process that has it. */
export interface StoreLock {
  /** Takes connections from other processes. Until then, they are closed at once. */
  serve(onConnection: (socket: Socket) => void): Promise<void>;
  /** Closes all connections. */
  disconnect(): void;
  release(): Promise<void>;
}

/**
 * Locks an embedded store, because PGlite does not detect a second process, which would corrupt the files. The lock is
 * a socket in its directory, on which the process listens while it lives. Other processes recognize a living owner by
 * connecting, even from another container, where process ids mean nothing. The system ends the listening with the
 * process, so a socket that refuses connections is left over from a dead process, and is removed.
 *
 * Each process first creates its socket and then looks for others, so if two try at once, at least one sees the other.
 * @throws ConfigError if a living process has the lock
 */
export async function lockStore(directory: string): Promise<StoreLock> {
  await makeDirectory(directory);
  for (let attempt = 1; ; attempt++) {
    const holder = await findHolder(directory);
    if (holder) throw new ConfigError(`the store in ${directory} is in use by process ${holder}`);
    const own = `lock.${process.pid}.${randomBytes(4).toString('hex')}`;
    const lock = await listen(directory, own);
    const rival = await findHolder(directory, own);
    if (!rival) return lock;
    await lock.release();
    if (attempt === ATTEMPTS) throw new ConfigError(`the store in ${directory} is being opened by process ${rival}`);
    await sleep(Math.random() * 20 * attempt);
  }
}

/** Whether a process serves the store in a directory. */
export function isServed(directory: string): Promise<boolean> {
  return isListening(directory, SERVER_SOCKET);
}

/** Calls `use` with a path of the directory that is short enough for a socket. On Linux, it may be an open directory. */
export async function withSocketDirectory<T>(directory: string, use: (path: string) => Promise<T>): Promise<T> {
  if (Buffer.byteLength(directory) <= MAX_PATH) return use(directory);
  if (process.platform !== 'linux') throw new Error('its path is too long for a socket');
  const handle = await open(directory);
  return use(`/proc/self/fd/${handle.fd}`).finally(() => handle.close());
}

/**
 * Finds the id of a living process that has the lock or tries to take it. In another container, the id is the one that
 * the process has there. Removes the sockets of dead processes.
 */
async function findHolder(directory: string, except?: string): Promise<string | undefined> {
  for (const name of await readdir(directory)) {
    const [, pid] = /^lock\.(\d+)\./.exec(name) ?? [];
    if (pid === undefined || name === except) continue;
    if (await isListening(directory, name)) return pid;
    // No other process ever creates a socket of this name.
    await rm(join(directory, name), { force: true });
  }
  return undefined;
}

/**
 * Listens on a socket to which only this user can connect. It gets its name only then, because others would take one
 * that does not listen yet for dead.
 */
async function listen(directory: string, name: string): Promise<StoreLock> {
  const connections = new Set<Socket>();
  const refuse = (socket: Socket): void => void socket.destroy();
  let onConnection = refuse;
  let hasLink = false;
  const server = createServer((socket) => {
    connections.add(socket.on('error', () => undefined));
    socket.unref().once('close', () => connections.delete(socket));
    onConnection(socket);
  }).unref();
  const unnamed = name.replace('lock', 'new');
  const link = join(directory, SERVER_SOCKET);
  await withSocketDirectory(directory, async (path) => {
    const previous = process.umask(0o177);
    try {
      // Creates the socket before it returns.
      server.listen(join(path, unnamed));
    } finally {
      process.umask(previous);
    }
    await once(server, 'listening');
  });
  // A connection that cannot be accepted must not end the process.
  server.on('error', () => undefined);
  await rename(join(directory, unnamed), join(directory, name));
  return {
    async serve(handle) {
      onConnection = handle;
      // The link of a dead process may be left.
      await rm(link, { force: true });
      await symlink(name, link);
      hasLink = true;
    },
    disconnect() {
      onConnection = refuse;
      connections.forEach(refuse);
    },
    async release() {
      if (hasLink) await rm(link, { force: true });
      await rm(join(directory, name), { force: true });
      server.close();
    },
  };
}

async function isListening(directory: string, name: string): Promise<boolean> {
  try {
    return await withSocketDirectory(directory, async (path) => {
      const socket = connect(join(path, name));
      await once(socket, 'connect');
      socket.on('error', () => undefined).destroy();
      return true;
    });
  } catch (error) {
    return !['ECONNREFUSED', 'ENOENT', 'ENOTDIR'].includes((error as NodeJS.ErrnoException).code ?? '');
  }
}
