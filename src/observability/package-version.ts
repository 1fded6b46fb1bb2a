import { readFileSync } from 'node:fs';

/** The version of this program, from its package.json. */
export function readPackageVersion(): string {
  const file = new URL('../../package.json', import.meta.url);
  return (JSON.parse(readFileSync(file, 'utf8')) as { version: string }).version;
}
