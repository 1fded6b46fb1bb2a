import { readFileSync } from 'node:fs';

const text = readFileSync(new URL('../../package.json', import.meta.url), 'utf8');

/** The name and the version of this program. */
export const { name: NAME, version: VERSION } = JSON.parse(text) as { readonly name: string; readonly version: string };
