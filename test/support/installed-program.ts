import { accessSync, constants } from 'node:fs';
import { delimiter, join } from 'node:path';
import { describe, it } from 'vitest';

/** Finds an installed program. Debian keeps servers in /usr/sbin, which only root has on its PATH. */
export function findProgram(name: string): string | undefined {
  const directories = [...(process.env.PATH ?? '').split(delimiter), '/usr/sbin'];
  return directories.map((directory) => join(directory, name)).find(isExecutable);
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

/**
 * Defines a suite that needs a program npm does not install. If it is missing, the suite is skipped with a warning, or
 * fails with `CI=true`.
 */
export function describeWith(name: string, title: string, suite: (path: string) => void): void {
  const path = findProgram(name);
  if (path !== undefined) {
    describe(title, () => suite(path));
    return;
  }
  const reason = `${name} is not installed: ${title}`;
  if (process.env.CI !== 'true') console.warn(`skipped, ${reason}`);
  describe.runIf(process.env.CI === 'true')(title, () => {
    it(`needs ${name}`, () => {
      throw new Error(reason);
    });
  });
}
