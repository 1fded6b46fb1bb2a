import { execFileSync } from 'node:child_process';
import { cp, mkdir, mkdtemp, realpath, rm, symlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { ROOT } from './markdown.js';

/** The project as a reader has it, in a folder of its own. */
export interface Checkout {
  readonly directory: string;
  remove(): Promise<void>;
}

/** Copies what Git has of the project, changes that are not committed included, and lends it the packages and the build. */
export async function makeCheckout(): Promise<Checkout> {
  // The system's folder for temporary files may be behind a link, which programs that are asked where they are resolve.
  const directory = join(await realpath(await mkdtemp(join(tmpdir(), 'reader-'))), 'animal-store-gateway');
  await copyProject(directory);
  await symlink(join(ROOT, 'node_modules'), join(directory, 'node_modules'));
  await cp(join(ROOT, 'dist'), join(directory, 'dist'), {
    recursive: true,
    filter: (path) => !path.endsWith('.building'),
  });
  return { directory, remove: () => rm(dirname(directory), { recursive: true, force: true }) };
}

/** Copies the files that Git has, or would take. */
export async function copyProject(directory: string): Promise<void> {
  const listed = execFileSync('git', ['ls-files', '-z', '--cached', '--others', '--exclude-standard'], { cwd: ROOT });
  const removed = execFileSync('git', ['ls-files', '-z', '--deleted'], { cwd: ROOT }).toString().split('\0');
  for (const file of listed.toString().split('\0')) {
    if (file === '' || removed.includes(file)) continue;
    await mkdir(dirname(join(directory, file)), { recursive: true });
    await cp(join(ROOT, file), join(directory, file));
  }
}
