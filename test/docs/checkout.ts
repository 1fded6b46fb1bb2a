import { execFileSync } from 'node:child_process';
import { cp, mkdir, mkdtemp, realpath, rm, symlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { ROOT } from './markdown.js';

/** A copy of the project, as a reader would have it. */
export interface Checkout {
  readonly directory: string;
  /** Removes the embedded store, so that the next server starts with a new one. */
  reset(): Promise<void>;
  remove(): Promise<void>;
}

/** Copies the project's files and its build, and links its packages. */
export async function makeCheckout(): Promise<Checkout> {
  // The folder for temporary files may be a link, but programs print its target.
  const directory = join(await realpath(await mkdtemp(join(tmpdir(), 'reader-'))), 'animal-store-gateway');
  await copyProject(directory);
  await symlink(join(ROOT, 'node_modules'), join(directory, 'node_modules'));
  await cp(join(ROOT, 'dist'), join(directory, 'dist'), {
    recursive: true,
    filter: (path) => !path.endsWith('.building'),
  });
  return {
    directory,
    reset: () => rm(join(directory, '.data'), { recursive: true, force: true }),
    remove: () => rm(dirname(directory), { recursive: true, force: true }),
  };
}

/** Copies the files that Git tracks or would add. */
export async function copyProject(directory: string): Promise<void> {
  const list = (...flags: string[]): string[] =>
    execFileSync('git', ['ls-files', '-z', ...flags], { cwd: ROOT })
      .toString()
      .split('\0')
      .filter((file) => file !== '');
  const deleted = new Set(list('--deleted'));
  for (const file of list('--cached', '--others', '--exclude-standard')) {
    if (deleted.has(file)) continue;
    await mkdir(dirname(join(directory, file)), { recursive: true });
    await cp(join(ROOT, file), join(directory, file));
  }
}
