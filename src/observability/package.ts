import { readFileSync } from 'node:fs';

interface Package {
  readonly name: string;
  readonly version: string;
}

export function readPackage(): Package {
  return JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8')) as Package;
}
