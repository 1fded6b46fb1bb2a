import { existsSync, readFileSync } from 'node:fs';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { gunzipSync } from 'node:zlib';

/** In a line of JSON, the name and size of each file and, with null, each directory. Then the bytes of all files. */
const ARCHIVE = fileURLToPath(new URL('../../dist/store-files.gz', import.meta.url));

/**
 * Creates the files of an empty database in a new directory. They come from the build (`scripts/create-store-files.mjs`),
 * because making them takes PGlite 800 MB of memory, which the process keeps. Only a checkout that is not built makes
 * them here.
 */
export async function createStoreFiles(directory: string): Promise<void> {
  await mkdir(directory, { mode: 0o700 });
  if (!existsSync(ARCHIVE)) {
    const { PGlite } = await import('@electric-sql/pglite');
    await (await PGlite.create(directory)).close();
    return;
  }
  const archive = gunzipSync(readFileSync(ARCHIVE));
  let end = archive.indexOf('\n');
  const entries = JSON.parse(archive.toString('utf8', 0, end)) as [name: string, size: number | null][];
  end += 1;
  for (const [name, size] of entries) {
    if (size === null) await mkdir(join(directory, name), { mode: 0o700 });
    else await writeFile(join(directory, name), archive.subarray(end, (end += size)), { mode: 0o600 });
  }
}
