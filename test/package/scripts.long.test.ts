import { spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, rmSync, utimesSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ROOT } from '../docs/markdown.js';
import { linesOf } from '../support/process.js';

function npm(cwd: string, ...args: string[]) {
  const { status, stdout, stderr } = spawnSync('npm', args, { cwd, encoding: 'utf8' });
  return { status, stdout, stderr };
}

describe('npm start with arguments', () => {
  it.each(['--help', '-h'])('%s prints the usage', (argument) => {
    const { status, stdout } = npm(ROOT, 'start', '--silent', '--', argument);
    expect(status).toBe(0);
    expect(stdout).toMatch(/^Usage: animal-store-gateway /);
    expect(stdout).toContain('docs/settings.md');
  });

  it.each(['serve', '--port=3000'])('%s is refused in one line', (argument) => {
    const { status, stdout, stderr } = npm(ROOT, 'start', '--silent', '--', argument);
    expect({ status, stdout }).toEqual({ status: 1, stdout: '' });
    expect(stderr).toBe(`animal-store-gateway: unknown argument "${argument}"; see --help\n`);
  });
});

describe('an installation without development packages', () => {
  let folder: string;

  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), 'production-'));
    for (const name of [
      'package.json',
      'scripts',
      'src',
      'pages',
      'docs',
      'schema',
      'README.md',
      'packages/client/src',
    ])
      cpSync(join(ROOT, name), join(folder, name), { recursive: true });
    for (const name of ['tsconfig.json', 'tsconfig.build.json', 'vite.config.ts'])
      cpSync(join(ROOT, name), join(folder, name));
  });
  afterAll(() => rmSync(folder, { recursive: true }));

  it.each([
    ['start', 'missing', () => undefined],
    ['run --silent keys -- list --json', 'missing', () => undefined],
    ['run build', 'missing', () => undefined],
    [
      'start',
      'older than its sources',
      () => {
        mkdirSync(join(folder, 'dist/public'), { recursive: true });
        writeFileSync(join(folder, 'dist/public/index.html'), '');
        utimesSync(join(folder, 'dist/public/index.html'), 0, 0);
      },
    ],
  ])('npm %s says in one line that dist/ is %s, and the remedy', (command, state, prepare) => {
    prepare();
    const { status, stderr, stdout } = npm(folder, ...command.split(' '), '--loglevel=silent');
    expect(status).toBe(1);
    expect(linesOf(stderr)).toEqual([expect.stringContaining(`dist/ is ${state}`)]);
    expect(stderr).toContain('npm ci --include=dev');
    expect(stdout).toBe('');
  });
});
