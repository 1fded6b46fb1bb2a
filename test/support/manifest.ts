import { mkdtemp, rename, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** A manifest of trusted documents in a file of its own. */
export interface Manifest {
  readonly path: string;
  write(content: unknown): Promise<void>;
  remove(): Promise<void>;
}

/** Writes a manifest. It is replaced as a whole, as a deployment would. */
export async function makeManifest(content: unknown): Promise<Manifest> {
  const directory = await mkdtemp(join(tmpdir(), 'manifest-'));
  const path = join(directory, 'manifest.json');
  const write = async (next: unknown): Promise<void> => {
    await writeFile(`${path}.new`, typeof next === 'string' ? next : JSON.stringify(next));
    await rename(`${path}.new`, path);
  };
  await write(content);
  return { path, write, remove: () => rm(directory, { recursive: true }) };
}
