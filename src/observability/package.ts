import { readFileSync } from 'node:fs';

const text = readFileSync(new URL('../../package.json', import.meta.url), 'utf8');

/** What this program is called. */
export const { name: NAME, version: VERSION } = JSON.parse(text) as { readonly name: string; readonly version: string };
