import { readFileSync } from 'node:fs';

/** The name of the program in metrics and traces. */
export const SERVICE_NAME = 'animal-store-gateway';

export function readPackage(): { readonly version: string } {
  const file = new URL('../../package.json', import.meta.url);
  const { version } = JSON.parse(readFileSync(file, 'utf8')) as { version: string };
  return { version };
}
