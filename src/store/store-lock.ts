import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { chmod, mkdir, readdir, rename, rm, symlink } from 'node:fs/promises';
import { connect, createServer, type Socket } from 'node:net';
import { dirname, join, relative, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { ConfigError } from '../config.js';

/** The socket at which `psql` and `pg` look for a server: https://www.postgresql.org/docs/current/libpq-connect.html */
export const SERVER_SOCKET = '.s.PGSQL.5432';
/** With a longer path, some operating systems refuse the names of these sockets. In bytes. */
const MAX_PATH = 76;
/** The present folder of the process on Linux, under a short name. */
const HERE = '/proc/self/cwd';
/** How long to wait for the lock, in milliseconds: most commands need the store for a second. */
const WAIT_MS = 3_000;

/**
 * Locks an embedded store, because PGlite does not detect a second process, which would corrupt the files. The lock is
 * a socket on which the process listens while it lives, so that others can tell a living owner from a dead one, even in
 * another container. Each process first creates its socket and then looks for others, so if two try at once, at least
 * one sees the other.
 * @throws ConfigError if a living process has the lock
 */
export async function lockStore(dataDirectory: string) {
  const directory = toSocketDirectory(dataDirectory);
  if (Buffer.byteLength(directory) > MAX_PATH) {
    const remedy = 'choose a shorter one, or start the program in a folder above it';
    throw new ConfigError(
      `DATA_DIR ${JSON.stringify(dataDirectory)} has a path of more than ${MAX_PATH} bytes: ${remedy}`,
    );
  }
  await makeDirectory(directory);
  const deadline = performance.now() + WAIT_MS;
  for (;;) {
    const name = `lock.${process.pid}.${randomBytes(4).toString('hex')}`;
    const lock = await listen(directory, name);
    const owner = await findOwner(directory, name);
    if (owner === undefined) return lock;
    await lock.release();
    if (performance.now() > deadline)
      throw new ConfigError(`the store in ${dataDirectory} is in use by process ${owner}`);
    // At random, so that one of several processes that try at once is alone.
    await sleep(Math.random() * 100);
  }
}

/** Makes a directory and those above it. Node's own recursion never ends where none can be made, as in /proc. */
async function makeDirectory(path: string): Promise<void> {
  if (existsSync(path)) return;
  await makeDirectory(dirname(path));
  try {
    await mkdir(path, { mode: 0o700 });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
  }
}

/** Returns a path of a directory that is short enough for its sockets, if there is one. */
export function toSocketDirectory(directory: string): string {
  const path = resolve(directory);
  const below = relative(process.cwd(), path);
  const isShort = Buffer.byteLength(path) <= MAX_PATH || below.startsWith('..') || !existsSync(HERE);
  return isShort ? path : join(HERE, below);
}

/** Finds the id of another living process that has the lock or tries to take it. Removes the sockets of dead ones. */
async function findOwner(directory: string, own: string): Promise<string | undefined> {
  for (const name of await readdir(directory)) {
    const [, pid] = /^lock\.(\d+)\./.exec(name) ?? [];
    if (pid === undefined || name === own) continue;
    if (await isListening(join(directory, name))) return pid;
    await rm(join(directory, name), { force: true });
  }
  return undefined;
}

/** Listens on a socket to which only this user can connect. It gets its name last, so that whoever finds it can connect. */
async function listen(directory: string, name: string) {
  const sockets = new Set<Socket>();
  let serve = (socket: Socket): void => void socket.destroy();
  const server = createServer((socket) => {
    sockets.add(socket.on('error', () => undefined));
    socket.unref().once('close', () => sockets.delete(socket));
    serve(socket);
  }).unref();
  const path = join(directory, name);
  const unnamed = join(directory, name.replace('lock', 'new'));
  await once(server.listen(unnamed), 'listening');
  // A connection that cannot be accepted must not end the process.
  server.on('error', () => undefined);
  await chmod(unnamed, 0o600);
  await rename(unnamed, path);
  const link = join(directory, SERVER_SOCKET);
  return {
    path,
    /** Passes connections on. Until then, they are closed at once. */
    async serve(handle: typeof serve): Promise<void> {
      // The link of a dead process may be left.
      await rm(link, { force: true });
      await symlink(name, link);
      serve = handle;
    },
    /** Closes all connections, calls `last`, and lets other processes have the lock. */
    async release(last?: () => Promise<void>): Promise<void> {
      serve = (socket) => void socket.destroy();
      for (const socket of sockets) socket.destroy();
      if (last) await rm(link, { force: true }).then(last);
      await rm(path, { force: true });
      server.close();
    },
  };
}

/** Whether a living process listens on a socket. */
export async function isListening(path: string): Promise<boolean> {
  try {
    const socket = connect(path);
    await once(socket, 'connect');
    socket.on('error', () => undefined).destroy();
    return true;
  } catch (error) {
    return !['ECONNREFUSED', 'ENOENT', 'ENOTDIR'].includes((error as NodeJS.ErrnoException).code ?? '');
  }
}
