import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { chmod, mkdir, open, readdir, rename, rm, symlink } from 'node:fs/promises';
import { connect, createServer, type Socket } from 'node:net';
import { dirname, join, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { ConfigError } from '../config.js';

/** The name of the socket at which `psql` and `pg` look for a server: https://www.postgresql.org/docs/current/libpq-connect.html */
const SERVER_SOCKET = '.s.PGSQL.5432';
/** The longest path of a directory in which every operating system accepts the names of these sockets, in bytes. */
const MAX_PATH = 76;
const ATTEMPTS = 10;

/** The lock of a store, and the socket of the process that has it. */
export type StoreLock = Awaited<ReturnType<typeof listen>>;

/**
 * Locks an embedded store, because PGlite does not detect a second process, which would corrupt the files. The lock is
 * a socket on which the process listens while it lives, so that others can tell a living owner from a dead one, even in
 * another container. Each process first creates its socket and then looks for others, so if two try at once, at least
 * one sees the other.
 * @throws ConfigError if a living process has the lock
 */
export async function lockStore(directory: string): Promise<StoreLock> {
  // Node never returns from a recursive mkdir in /proc.
  const parent = dirname(resolve(directory));
  if (!existsSync(parent)) await mkdir(parent, { recursive: true, mode: 0o700 });
  if (!existsSync(directory)) await mkdir(directory, { mode: 0o700 });
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

/** Finds the id of a living process that has the lock or tries to take it. Removes the sockets of dead processes. */
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
async function listen(directory: string, name: string) {
  const connections = new Set<Socket>();
  const refuse = (socket: Socket): void => void socket.destroy();
  let onConnection = refuse;
  const server = createServer((socket) => {
    connections.add(socket.on('error', () => undefined));
    socket.unref().once('close', () => connections.delete(socket));
    onConnection(socket);
  }).unref();
  const unnamed = name.replace('lock', 'new');
  await withSocketDirectory(directory, (path) => once(server.listen(join(path, unnamed)), 'listening'));
  // A connection that cannot be accepted must not end the process.
  server.on('error', () => undefined);
  await chmod(join(directory, unnamed), 0o600);
  await rename(join(directory, unnamed), join(directory, name));
  const unlink = (): Promise<void> => rm(join(directory, SERVER_SOCKET), { force: true });
  return {
    /** Takes connections from other processes. Until then, they are closed at once. */
    async serve(handle: (socket: Socket) => void): Promise<void> {
      onConnection = handle;
      // The link of a dead process may be left.
      await unlink();
      await symlink(name, join(directory, SERVER_SOCKET));
    },
    /** Closes all connections, and takes no more. */
    async disconnect(): Promise<void> {
      onConnection = refuse;
      connections.forEach(refuse);
      await unlink();
    },
    async release(): Promise<void> {
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
