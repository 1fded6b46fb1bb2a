import { once } from 'node:events';
import { open } from 'node:fs/promises';
import { connect, type Server, type Socket } from 'node:net';
import { join } from 'node:path';

/** The longest path of a socket that every operating system accepts, in bytes. */
const MAX_SOCKET_PATH = 103;

/** Has a server listen on a socket in a directory, which only other processes of this machine reach. */
export async function listenOnSocket(server: Server, directory: string, name: string): Promise<void> {
  await withSocketPath(directory, name, (path) => once(server.listen(path), 'listening'));
  // A connection that cannot be accepted must not end the process.
  server.on('error', () => undefined);
}

/**
 * Connects to a socket in a directory.
 * @throws ErrnoException `ECONNREFUSED` or `ENOENT` if nobody listens
 */
export function connectToSocket(directory: string, name: string): Promise<Socket> {
  return withSocketPath(directory, name, async (path) => {
    const socket = connect(path);
    await once(socket, 'connect');
    return socket.on('error', () => undefined);
  });
}

/** Calls `use` with a path of a socket. On Linux, a path that is too long leads through the open directory. */
async function withSocketPath<T>(directory: string, name: string, use: (path: string) => Promise<T>): Promise<T> {
  const path = join(directory, name);
  if (Buffer.byteLength(path) <= MAX_SOCKET_PATH) return use(path);
  if (process.platform !== 'linux') throw new Error('its path is too long for a socket');
  const handle = await open(directory);
  return use(`/proc/self/fd/${handle.fd}/${name}`).finally(() => handle.close());
}
