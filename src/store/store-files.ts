import { existsSync, readFileSync } from 'node:fs';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { deserialize } from 'node:v8';
import { gunzipSync } from 'node:zlib';

/** The files of a new store, made by scripts/create-store-files.mjs: each with its bytes, each directory with null. */
type StoreFiles = ReadonlyMap<string, Uint8Array | null>;

const ARCHIVE = fileURLToPath(new URL('../../dist/store-files.gz', import.meta.url));

/**
 * Creates the files of an empty database in a new directory. They come from the build, because making them takes PGlite
 * 800 MB of memory, which the process keeps. Only a checkout that is not built makes them here.
 */
export async function createStoreFiles(directory: string): Promise<void> {
  await mkdir(directory, { mode: 0o700 });
  if (!existsSync(ARCHIVE)) {
    const { PGlite } = await import('@electric-sql/pglite');
    await (await PGlite.create(directory)).close();
    return;
  }
  const files = deserialize(gunzipSync(readFileSync(ARCHIVE))) as StoreFiles;
  for (const [name, bytes] of files) {
    if (bytes === null) await mkdir(join(directory, name), { mode: 0o700 });
    else await writeFile(join(directory, name), bytes, { mode: 0o600 });
  }
}
