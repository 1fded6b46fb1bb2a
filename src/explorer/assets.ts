import { readdirSync, readFileSync } from 'node:fs';
import { extname } from 'node:path';

/** A file of the explorer, as it is and compressed. */
export interface Asset {
  readonly mediaType: string;
  readonly plain: Uint8Array;
  readonly gzip: Uint8Array;
}

/** Made by the build out of GraphiQL, so that the page needs nothing but this server. */
const FOLDER = new URL('../../dist/explorer-page/', import.meta.url);

const MEDIA_TYPES: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.txt': 'text/plain; charset=utf-8',
};

/** Reads the files of the explorer, by their names. */
export function readAssets(): ReadonlyMap<string, Asset> {
  const names = readdirSync(FOLDER).filter((name) => !name.endsWith('.gz'));
  return new Map(
    names.map((name) => [
      name,
      {
        mediaType: MEDIA_TYPES[extname(name)] ?? 'application/octet-stream',
        plain: readFileSync(new URL(name, FOLDER)),
        gzip: readFileSync(new URL(`${name}.gz`, FOLDER)),
      },
    ]),
  );
}
