import { accessSync, constants, existsSync, readdirSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { describe, it } from 'vitest';

/** The Debian packages of programs that are not named like theirs. */
const PACKAGES: Readonly<Record<string, string>> = {
  etcd: 'etcd-server',
  pg_basebackup: 'postgresql',
  pg_dump: 'postgresql-client',
};

/** Where Debian keeps the programs of PostgreSQL, by version. */
const POSTGRES = '/usr/lib/postgresql';

/** Finds an installed program. Debian keeps servers where only root, or nobody, has them on the PATH. */
export function findProgram(name: string): string | undefined {
  const versions = existsSync(POSTGRES) ? readdirSync(POSTGRES).sort().reverse() : [];
  const path = (process.env.PATH ?? '').split(delimiter);
  const directories = [...versions.map((version) => join(POSTGRES, version, 'bin')), ...path, '/usr/sbin'];
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
 * Defines a suite that needs programs npm does not install. If one is missing, the suite is skipped with a warning, or
 * fails with `CI=true`, as in drills.
 * @param names - the programs, separated by spaces
 */
export function describeWith(names: string, title: string, suite: (...paths: string[]) => void): void {
  const programs = names.split(' ').map((name) => ({ name, path: findProgram(name) }));
  const missing = programs.filter(({ path }) => path === undefined).map(({ name }) => name);
  if (missing.length === 0) {
    describe(title, () => suite(...programs.map(({ path }) => path as string)));
    return;
  }
  const packages = missing.map((name) => PACKAGES[name] ?? name).join(' ');
  const reason = `${missing.join(', ')} not installed (on Debian: apt-get install ${packages}): ${title}`;
  const isNeeded = process.env.CI === 'true';
  if (!isNeeded) console.warn(`skipped, ${reason}`);
  describe.runIf(isNeeded)(title, () => {
    it(`needs ${missing.join(', ')}`, () => {
      throw new Error(reason);
    });
  });
}
