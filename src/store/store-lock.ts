import { randomBytes } from 'node:crypto';
import { readdir, rename, rm } from 'node:fs/promises';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { ConfigError } from '../config.js';
import { makeDirectory } from '../make-directory.js';
import { connectToSocket, listenOnSocket } from './local-socket.js';

const ATTEMPTS = 10;

/**
 * Locks an embedded store, because PGlite does not detect a second process, which would corrupt the files. The lock is
 * a socket in its directory, on which the process listens while it lives. Other processes recognize a living owner by
 * connecting, even from another container, where process ids mean nothing. The system ends the listening with the
 * process, so a socket that refuses connections is left over from a dead process, and is removed.
 *
 * Each process first creates its socket and then looks for others, so if two try at once, at least one sees the other.
 * @returns a function that releases the lock
 * @throws ConfigError if a living process has the lock
 */
export async function acquireStoreLock(directory: string): Promise<() => Promise<void>> {
  await makeDirectory(directory);
  for (let attempt = 1; ; attempt++) {
    const holder = await findHolder(directory);
    if (holder) throw new ConfigError(`the store in ${directory} is in use by process ${holder}`);
    const own = `lock.${process.pid}.${randomBytes(4).toString('hex')}`;
    const release = await listen(directory, own);
    const rival = await findHolder(directory, own);
    if (!rival) return release;
    await release();
    if (attempt === ATTEMPTS) throw new ConfigError(`the store in ${directory} is being opened by process ${rival}`);
    await sleep(Math.random() * 20 * attempt);
  }
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

/** Listens on a socket. It gets its name only then, because others would take one that does not listen yet for dead. */
async function listen(directory: string, name: string): Promise<() => Promise<void>> {
  const server = createServer((socket) => socket.destroy()).unref();
  const unnamed = name.replace('lock', 'new');
  await listenOnSocket(server, directory, unnamed);
  await rename(join(directory, unnamed), join(directory, name));
  return async () => {
    await rm(join(directory, name), { force: true });
    server.close();
  };
}

async function isListening(directory: string, name: string): Promise<boolean> {
  try {
    (await connectToSocket(directory, name)).destroy();
    return true;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    return code !== 'ECONNREFUSED' && code !== 'ENOENT';
  }
}
