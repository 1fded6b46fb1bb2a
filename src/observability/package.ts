import { readFileSync } from 'node:fs';

export function readPackage() {
  const text = readFileSync(new URL('../../package.json', import.meta.url), 'utf8');
  return JSON.parse(text) as { readonly name: string; readonly version: string };
}
