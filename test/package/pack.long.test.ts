import { execFile, spawn, type ChildProcess } from 'node:child_process';
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { promisify } from 'node:util';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { until } from '../support/process.js';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));
const NAME = 'animal-store-gateway';

/** All that belongs into the package, apart from the program itself. */
const OTHERS = [
  'CHANGELOG.md',
  'LICENSE',
  'README.md',
  'dist/explorer-page/*',
  'dist/schema.graphql',
  'docs/*.md',
  'migrations/*.sql',
  'package.json',
  'schema/animal-store.graphql',
];

const run = promisify(execFile);

describe('the package, packed and installed into an empty folder', () => {
  let folder: string;
  let installed: string;
  let server: ChildProcess | undefined;
  let output = '';

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'package-'));
    installed = join(folder, 'node_modules', NAME);
    await run('npm', ['pack', '--pack-destination', folder], { cwd: ROOT });
    const tarball = (await readdir(folder)).find((name) => name.endsWith('.tgz'));
    await writeFile(join(folder, 'package.json'), '{"private":true}');
    const { stderr } = await npm('install', '--no-audit', '--no-fund', '--prefer-offline', `./${tarball}`);
    expect(stderr).not.toMatch(/EBADENGINE|npm error/);
  });
  afterAll(async () => {
    signalGroup('SIGKILL');
    await rm(folder, { recursive: true, force: true });
  });

  /** To npx, its shell and the program, as a terminal does: npx alone would not pass it on. */
  function signalGroup(signal: NodeJS.Signals): void {
    if (server?.pid !== undefined) process.kill(-server.pid, signal);
  }

  /** In the folder, with nothing of this test run in the environment. */
  function npm(...args: string[]): Promise<{ stdout: string; stderr: string }> {
    return run('npm', args, { cwd: folder, env: environment() });
  }

  it('has the program and what it reads, and nothing else', async () => {
    const files = (await readdir(installed, { recursive: true, withFileTypes: true }))
      .filter((entry) => entry.isFile())
      .map((entry) => relative(installed, join(entry.parentPath, entry.name)))
      .filter((name) => !name.startsWith('node_modules/'));
    const sources = (await readdir(join(ROOT, 'src'), { recursive: true })).filter((name) => name.endsWith('.ts'));
    const compiled = sources.map((name) => `dist/${name.replace(/\.ts$/, '.js')}`);
    const isOfPage = (name: string): boolean => name.startsWith('dist/explorer-page/');
    expect(files.filter((name) => name.endsWith('.js') && !isOfPage(name)).sort()).toEqual(compiled.sort());
    const types = files.filter((name) => name.endsWith('.d.ts')).map((name) => name.replace(/\.d\.ts$/, '.js'));
    expect(types).toContain('dist/client/pet-client.js');
    expect(types.filter((name) => !compiled.includes(name))).toEqual([]);
    const others = files
      .filter((name) => isOfPage(name) || !/\.js$|\.d\.ts$/.test(name))
      .map((name) =>
        isOfPage(name) ? 'dist/explorer-page/*' : name.replace(/^(docs|migrations)\/[^/]+(?=\.\w+$)/, '$1/*'),
      );
    expect([...new Set(others)].sort()).toEqual(OTHERS);
  });

  it('installs no package that only development needs', async () => {
    const { devDependencies, dependencies } = JSON.parse(await readFile(join(ROOT, 'package.json'), 'utf8')) as Record<
      'devDependencies' | 'dependencies',
      Record<string, string>
    >;
    const lock = await readFile(join(folder, 'package-lock.json'), 'utf8');
    const { packages } = JSON.parse(lock) as { packages: Record<string, { version: string }> };
    for (const name of ['typescript', 'vitest', 'eslint']) {
      expect(devDependencies).toHaveProperty(name);
      expect(Object.keys(packages)).not.toContain(`node_modules/${name}`);
    }
    for (const [name, version] of Object.entries(dependencies)) {
      const own = packages[`node_modules/${NAME}/node_modules/${name}`] ?? packages[`node_modules/${name}`];
      expect(own?.version, name).toBe(version);
    }
  });

  it('serves as `npx animal-store-gateway`, and stops when it is told to', async () => {
    server = spawn('npx', ['--no-install', NAME], {
      cwd: folder,
      env: { ...environment(), PORT: '0' },
      detached: true,
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    let gone = false;
    server.once('close', () => {
      gone = true;
      server = undefined;
    });
    for (const stream of [server.stdout, server.stderr])
      stream?.setEncoding('utf8').on('data', (text: string) => (output += text));
    await until('it listens', () => output.includes('listening on ') || gone, 120_000);
    const url = /listening on (http:\S+)/.exec(output)?.[1];
    expect(url, output).toBeDefined();

    const keys = JSON.parse(await readFile(join(folder, '.data/dev-keys.json'), 'utf8')) as { free: string };
    const response = await fetch(`${url}/graphql`, {
      method: 'POST',
      headers: { Authorization: `Bearer ${keys.free}`, 'Content-Type': 'application/json' },
      body: JSON.stringify({ query: '{ pets(limit: 1) { id name } rateLimit { plan } }' }),
    });
    expect(await response.json()).toEqual({
      data: { pets: [{ id: '1', name: expect.any(String) }], rateLimit: { plan: 'FREE' } },
    });
    expect((await fetch(`${url}/explorer`)).status).toBe(200);
    const created = await npm('exec', '--no', '--', NAME, 'keys', 'create', '--plan', 'pro', '--json');
    expect(JSON.parse(created.stdout)).toMatchObject({ plan: 'pro', limits: { perMinute: 300 } });

    signalGroup('SIGINT');
    await until('it has ended', () => gone, 120_000);
    expect(output).toContain('shutting down');
    await expect(fetch(`${url}/livez`)).rejects.toThrow();
  });

  it('names its version, and refuses commands that it does not have', async () => {
    const command = join(folder, 'node_modules/.bin', NAME);
    const { version } = JSON.parse(await readFile(join(installed, 'package.json'), 'utf8')) as { version: string };
    expect((await run(command, ['--version'])).stdout).toBe(`${version}\n`);
    await expect(run(command, ['sevre'])).rejects.toMatchObject({
      code: 1,
      stderr: expect.stringContaining('no such command: "sevre"'),
    });
  });
});

/** What a user has, and nothing that npm or the test runner sets for what they start. */
function environment(): Record<string, string | undefined> {
  const { PATH, HOME, npm_config_registry: registry } = process.env;
  return { PATH, HOME, ...(registry !== undefined && { npm_config_registry: registry }) };
}
