import { execFileSync, execSync, spawnSync } from 'node:child_process';
import {
  appendFileSync,
  existsSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { copyProject } from '../docs/checkout.js';
import { ROOT } from '../docs/markdown.js';

let folder: string;
const path = (name: string): string => join(folder, name);
const builtAt = (): number => statSync(path('dist/main.js')).mtimeMs;
const git = (...args: string[]): string => execFileSync('git', args, { cwd: folder, encoding: 'utf8' });

/** Runs the program as `npm start` does. */
function run(...args: string[]) {
  const { status, stdout, stderr } = spawnSync('node', ['scripts/run.mjs', ...args], { cwd: folder, encoding: 'utf8' });
  return { status, stdout, stderr };
}

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'a build-'));
  await copyProject(folder);
  symlinkSync(join(ROOT, 'node_modules'), path('node_modules'));
  git('init', '--quiet');
  // .gitignore names a folder, and this is a link.
  writeFileSync(path('.git/info/exclude'), 'node_modules\n');
  git('add', '--all');
});
afterAll(() => rmSync(folder, { recursive: true }));

it('the first start builds, and only the program writes to the standard output', () => {
  const { version } = JSON.parse(readFileSync(path('package.json'), 'utf8')) as { version: string };
  expect(run('--version')).toEqual({ status: 0, stdout: `${version}\n`, stderr: '' });
  for (const name of ['main.js', 'cli/keys.js', 'public/explorer.html', 'public/docs/README.html'])
    expect(existsSync(path(`dist/${name}`)), name).toBe(true);
});

it('the keys command that it prints works, also in a folder with a space', () => {
  const print = `import { findKeysCommand } from ${JSON.stringify(pathToFileURL(path('dist/environment.js')))};
    console.log(findKeysCommand());`;
  const options = { cwd: tmpdir(), env: { PATH: process.env.PATH }, encoding: 'utf8' } as const;
  const command = execFileSync(process.execPath, ['--input-type=module', '--eval', print], options).trim();
  expect(command).toMatch(/^node ".*a build-.*"$/);
  expect(execSync(`${command} --help`, options)).toContain('Manages API keys');
});

it('the next start builds nothing', () => {
  const before = builtAt();
  run('--version');
  expect(builtAt()).toBe(before);
});

it('a start after a source has been removed builds without it', () => {
  writeFileSync(path('src/cli/gone.ts'), 'export {};\n');
  run('--version');
  expect(existsSync(path('dist/cli/gone.js'))).toBe(true);
  rmSync(path('src/cli/gone.ts'));
  run('--version');
  expect(existsSync(path('dist/cli/gone.js'))).toBe(false);
});

it('a source with an error ends the start, and keeps the build before', () => {
  const before = builtAt();
  appendFileSync(path('src/repeat.ts'), 'const wrong: string = 1;\n');
  const { status, stderr } = run('--version');
  expect(status).toBe(1);
  expect(stderr).toMatch(/repeat\.ts.*error TS/s);
  expect(stderr).toMatch(/^build: dist\/ could not be built$/m);
  expect(builtAt()).toBe(before);
  git('checkout', '--', 'src/repeat.ts');
});

it('npm pack leaves no file that git does not ignore', () => {
  execFileSync('npm', ['pack', '--silent'], { cwd: folder });
  execFileSync('npm', ['pack', '--silent', './packages/client'], { cwd: folder });
  expect(
    git('status', '--porcelain')
      .split('\n')
      .filter((line) => !line.startsWith('A ')),
  ).toEqual(['']);
});
