import { readdir, readFile } from 'node:fs/promises';
import { extname } from 'node:path';
import { promisify } from 'node:util';
import { gzip } from 'node:zlib';

/** A file of the pages, plain and compressed. */
export interface Asset {
  readonly mediaType: string;
  readonly plain: Uint8Array;
  readonly gzip: Uint8Array;
}

/** The folder into which the build writes the pages and their files. */
const FOLDER = new URL('../../dist/pages/', import.meta.url);

const MEDIA_TYPES: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.txt': 'text/plain; charset=utf-8',
};

const compress = promisify(gzip);

/** Reads and compresses the files of the pages. Returns them by name. */
export async function readAssets(): Promise<ReadonlyMap<string, Asset>> {
  const paths = await readdir(FOLDER, { recursive: true });
  const files = paths.filter((path) => extname(path) !== '').map((path) => path.replaceAll('\\', '/'));
  return new Map(await Promise.all(files.map(readAsset)));
}

async function readAsset(name: string): Promise<[name: string, Asset]> {
  const plain = await readFile(new URL(name, FOLDER));
  const mediaType = MEDIA_TYPES[extname(name)] ?? 'application/octet-stream';
  return [name, { mediaType, plain, gzip: await compress(plain, { level: 9 }) }];
}
