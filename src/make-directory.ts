import { existsSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { dirname } from 'node:path';

/** Creates a directory and its parents one by one: Node's `recursive` option never returns on some file systems. */
export async function makeDirectory(path: string): Promise<void> {
  if (existsSync(path)) return;
  await makeDirectory(dirname(path));
  await mkdir(path, { mode: 0o700 }).catch((error: unknown) => {
    // Another process may have created it.
    if (!existsSync(path)) throw error;
  });
}
