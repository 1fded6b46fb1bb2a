import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { isBuiltin } from 'node:module';
import { join } from 'node:path';
import ts from 'typescript';
import { expect, it } from 'vitest';
import packageJson from '../../package.json' with { type: 'json' };
import { ROOT } from '../docs/markdown.js';

/** These are not imported, and yet needed by what runs. */
const BY_NAME = [
  // pino loads it for a terminal.
  'pino-pretty',
  // Otherwise @graphql-tools/schema would install a later one, which needs Node 22.
  '@graphql-tools/merge',
];

it('the dependencies are the packages that the compiled program imports, and nothing else', () => {
  const dist = join(ROOT, 'dist');
  const files = readdirSync(dist, { recursive: true, encoding: 'utf8' }).filter(
    (name) => name.endsWith('.js') && !name.startsWith('public'),
  );
  const imported = files.flatMap((name) =>
    ts.preProcessFile(readFileSync(join(dist, name), 'utf8')).importedFiles.map(({ fileName }) => fileName),
  );
  const packages = imported
    .filter((name) => !name.startsWith('.') && !isBuiltin(name))
    .map((name) => /^(?:@[^/]+\/)?[^/]+/.exec(name)?.[0]);
  expect(Object.keys(packageJson.dependencies).sort()).toEqual([...new Set([...packages, ...BY_NAME])].sort());
});

it('npm ls --omit=dev lists the dependencies and nothing else', () => {
  const { dependencies } = JSON.parse(
    execFileSync('npm', ['ls', '--omit=dev', '--json'], { cwd: ROOT, encoding: 'utf8' }),
  ) as { dependencies: object };
  expect(Object.keys(dependencies).sort()).toEqual(Object.keys(packageJson.dependencies).sort());
});
