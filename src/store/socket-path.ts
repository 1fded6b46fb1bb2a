import { open } from 'node:fs/promises';
import { relative, resolve } from 'node:path';

/** The longest path of a socket that every operating system accepts, in bytes. */
const MAX_SOCKET_PATH = 103;

/**
 * Calls `use` with a path of a socket that is short enough for the operating system: relative to the working directory
 * if that is shorter, and on Linux through the open directory if it is still too long.
 */
export async function withSocketPath<T>(
  directory: string,
  name: string,
  use: (path: string) => Promise<T>,
): Promise<T> {
  const absolute = resolve(directory, name);
  const fromHere = relative(process.cwd(), absolute);
  const path = fromHere.length < absolute.length ? fromHere : absolute;
  if (Buffer.byteLength(path) <= MAX_SOCKET_PATH) return use(path);
  if (process.platform !== 'linux') throw new Error('its path is too long for a socket');
  const handle = await open(directory);
  return use(`/proc/self/fd/${handle.fd}/${name}`).finally(() => handle.close());
}
