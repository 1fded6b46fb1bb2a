import { mkdir } from 'node:fs/promises';
import { dirname } from 'node:path';

/** Creates a directory and its parents one by one: Node's `recursive` option never returns on some file systems. */
export async function makeDirectory(path: string): Promise<void> {
  try {
    await mkdir(path, { mode: 0o700 });
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'EEXIST') return;
    const parent = dirname(path);
    if (code !== 'ENOENT' || parent === path) throw error;
    await makeDirectory(parent);
    await mkdir(path, { mode: 0o700 });
  }
}
