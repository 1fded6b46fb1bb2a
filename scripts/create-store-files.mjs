// Makes dist/store-files.gz, the files of an empty embedded store, as a part of the build: see src/store/embedded-store.ts.
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';
import { PGlite } from '@electric-sql/pglite';

const ARCHIVE = fileURLToPath(new URL('../dist/store-files.gz', import.meta.url));
const SOURCES = [fileURLToPath(import.meta.url), fileURLToPath(import.meta.resolve('@electric-sql/pglite'))];

const builtAt = statSync(ARCHIVE, { throwIfNoEntry: false })?.mtimeMs ?? 0;
if (SOURCES.some((file) => statSync(file).mtimeMs > builtAt)) {
  const directory = mkdtempSync(join(tmpdir(), 'store-files-'));
  try {
    await (await PGlite.create(directory)).close();
    // A directory comes before what it holds.
    const names = readdirSync(directory, { recursive: true }).sort();
    const files = names.map((name) => {
      const path = join(directory, name);
      return { name, bytes: statSync(path).isDirectory() ? null : readFileSync(path) };
    });
    const header = JSON.stringify(files.map(({ name, bytes }) => [name, bytes?.length ?? null]));
    const parts = [Buffer.from(`${header}\n`), ...files.flatMap(({ bytes }) => bytes ?? [])];
    mkdirSync(fileURLToPath(new URL('../dist', import.meta.url)), { recursive: true });
    writeFileSync(ARCHIVE, gzipSync(Buffer.concat(parts)));
  } finally {
    rmSync(directory, { recursive: true });
  }
}
