import { readFileSync } from 'node:fs';

/** Reads the version and the home page of this program from its package.json. */
export function readPackage(): { readonly version: string; readonly homepage: string } {
  const file = new URL('../../package.json', import.meta.url);
  const { version, homepage } = JSON.parse(readFileSync(file, 'utf8')) as { version: string; homepage: string };
  return { version, homepage };
}
