import { execFile, spawn, type ChildProcess } from 'node:child_process';
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { promisify } from 'node:util';
import { fileURLToPath } from 'node:url';
import { buildSchema, lexicographicSortSchema, printSchema, type GraphQLSchema } from 'graphql';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createSchema } from '../../src/graphql/resolvers.js';
import { until } from '../support/process.js';
import { USER_ENVIRONMENT } from '../support/user-environment.js';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));
const NAME = 'animal-store-gateway';
const CLIENT = 'animal-store-client';

/** The files of the package. A star matches any name. */
const FILES = [
  'CHANGELOG.md',
  'LICENSE',
  'README.md',
  'dist/*.js',
  'dist/public/*',
  'dist/store-files.gz',
  'docs/*.md',
  'docs/explorer.png',
  'docs/llms.txt',
  'migrations/*.sql',
  'package.json',
  'schema/animal-store.graphql',
  'schema/openapi.json',
];

const run = promisify(execFile);

describe('the package of the server, packed and installed in an empty folder', () => {
  let folder: string;
  let installed: string;
  let server: ChildProcess | undefined;
  let output = '';

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'package-'));
    installed = join(folder, 'node_modules', NAME);
    const tarball = await pack(ROOT, folder);
    await writeFile(join(folder, 'package.json'), '{"private":true}');
    await copyLock(folder);
    const { stderr } = await npm(folder, 'install', '--no-audit', '--no-fund', '--prefer-offline', tarball);
    expect(stderr).not.toMatch(/EBADENGINE|npm error/);
  });
  afterAll(async () => {
    signalGroup('SIGKILL');
    await rm(folder, { recursive: true, force: true });
  });

  /** Signals npx, its shell and the program, as a terminal does. npx does not forward signals. */
  function signalGroup(signal: NodeJS.Signals): void {
    if (server?.pid !== undefined) process.kill(-server.pid, signal);
  }

  it('contains only the program and the files that it reads', async () => {
    const files = (await readdir(installed, { recursive: true, withFileTypes: true }))
      .filter((entry) => entry.isFile())
      .map((entry) => relative(installed, join(entry.parentPath, entry.name)))
      .filter((name) => !name.startsWith('node_modules/'));
    const kinds = files.map((name) =>
      name
        .replace(/^dist\/public\/.*/, 'dist/public/*')
        .replace(/^dist\/.*\.js$/, 'dist/*.js')
        .replace(/^(docs|migrations)\/[^/]+(?=\.(?:md|sql)$)/, '$1/*'),
    );
    expect([...new Set(kinds)].sort()).toEqual(FILES);
  });

  it('installs the packages that run, and none that is only for development', async () => {
    const { devDependencies, dependencies } = JSON.parse(await readFile(join(ROOT, 'package.json'), 'utf8')) as Record<
      'devDependencies' | 'dependencies',
      Record<string, string>
    >;
    const lock = await readFile(join(folder, 'package-lock.json'), 'utf8');
    const { packages } = JSON.parse(lock) as { packages: Record<string, { version: string }> };
    const installedNames = Object.keys(packages).map((path) => path.replace(/.*node_modules\//, ''));
    expect(installedNames.filter((name) => Object.hasOwn(devDependencies, name))).toEqual([]);
    for (const [name, version] of Object.entries(dependencies)) {
      const own = packages[`node_modules/${NAME}/node_modules/${name}`] ?? packages[`node_modules/${name}`];
      expect(own?.version, name).toBe(version);
    }
  });

  it('exports the schema', async () => {
    const program = `import { readFileSync } from 'node:fs';
      process.stdout.write(readFileSync(new URL(import.meta.resolve('${NAME}/schema.graphql'))));`;
    const { stdout: schema } = await run(process.execPath, ['--input-type=module', '--eval', program], { cwd: folder });
    const print = (definition: GraphQLSchema): string => printSchema(lexicographicSortSchema(definition));
    expect(print(buildSchema(schema))).toBe(print(createSchema()));
    expect(schema).toContain('a 64-bit integer in plain digits');
  });

  it('runs as `npx animal-store-gateway`, and stops on SIGINT', async () => {
    server = spawn('npx', ['--no-install', NAME], {
      cwd: folder,
      env: { ...USER_ENVIRONMENT, PORT: '0' },
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
    for (const path of ['/explorer', '/docs/README']) expect((await fetch(`${url}${path}`)).status, path).toBe(200);
    const created = await npm(folder, 'exec', '--no', '--', NAME, 'keys', 'create', '--plan', 'pro', '--json');
    expect(JSON.parse(created.stdout)).toMatchObject({ plan: 'pro', limits: { perMinute: 300 } });

    signalGroup('SIGINT');
    await until('it has ended', () => gone, 120_000);
    expect(output).toContain('shutting down');
    await expect(fetch(`${url}/livez`)).rejects.toThrow();
  });

  it('prints its version and its usage, and rejects unknown commands', async () => {
    const command = join(folder, 'node_modules/.bin', NAME);
    const { version } = JSON.parse(await readFile(join(installed, 'package.json'), 'utf8')) as { version: string };
    expect((await run(command, ['--version'])).stdout).toBe(`${version}\n`);
    const { stdout: usage } = await run(command, ['-h']);
    expect(usage).toContain('animal-store-gateway --help');
    expect((await run(command, ['--help'])).stdout).toBe(usage);
    await expect(run(command, ['sevre'])).rejects.toMatchObject({
      code: 1,
      stderr: 'animal-store-gateway: unknown argument "sevre"; see --help\n',
    });
  });
});

describe('the package of the client, packed and installed in an empty folder', () => {
  let folder: string;

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'client-'));
    const tarball = await pack(join(ROOT, 'packages/client'), folder);
    await writeFile(join(folder, 'package.json'), '{"private":true}');
    await npm(folder, 'install', '--no-audit', '--no-fund', '--offline', tarball);
  });
  afterAll(() => rm(folder, { recursive: true, force: true }));

  it('contains only the compiled modules and their types', async () => {
    const installed = join(folder, 'node_modules', CLIENT);
    const files = (await readdir(installed, { recursive: true, withFileTypes: true }))
      .filter((entry) => entry.isFile())
      .map((entry) => relative(installed, join(entry.parentPath, entry.name)));
    const modules = (await readdir(join(ROOT, 'packages/client/src'))).map((name) => name.replace(/\.ts$/, ''));
    const compiled = modules.flatMap((name) => [`dist/${name}.js`, `dist/${name}.d.ts`]);
    const commonJs = [...compiled.map((file) => file.replace('dist/', 'dist/cjs/')), 'dist/cjs/package.json'];
    expect(files.sort()).toEqual([...compiled, ...commonJs, 'LICENSE', 'README.md', 'package.json'].sort());
  });

  it('installs nothing else', async () => {
    const installed = await readdir(join(folder, 'node_modules'));
    expect(installed.filter((name) => !name.startsWith('.'))).toEqual([CLIENT]);
  });

  it('is clean for publint and arethetypeswrong', async () => {
    const cwd = join(ROOT, 'packages/client');
    await run('npx', ['publint', '--strict'], { cwd });
    await run('npx', ['attw', '--pack', '.'], { cwd });
  });

  it('can be imported and required', async () => {
    const program = `import { createPetClient, STORE_ERRORS } from '${CLIENT}';
      import { toStoreErrors } from '${CLIENT}/errors';
      createPetClient({ url: 'http://127.0.0.1:1/graphql', key: 'k' });
      console.log(STORE_ERRORS.NOT_FOUND.repeat, toStoreErrors({}).length);`;
    const common = program.replaceAll(/import (.*) from '(.*)';/g, "const $1 = require('$2');");
    for (const [type, source] of [
      ['module', program],
      ['commonjs', common],
    ] as const) {
      const { stdout } = await run(process.execPath, [`--input-type=${type}`, '--eval', source], { cwd: folder });
      expect(stdout).toBe('no 0\n');
    }
  });
});

/** @returns the path of the tarball */
async function pack(directory: string, destination: string): Promise<string> {
  await run('npm', ['pack', '--pack-destination', destination], { cwd: directory });
  const tarball = (await readdir(destination)).find((name) => name.endsWith('.tgz')) as string;
  return join(destination, tarball);
}

/** Lets npm take packages from its cache, where `npm ci` has put them: it drops those that the package does not need. */
async function copyLock(folder: string): Promise<void> {
  const lock = JSON.parse(await readFile(join(ROOT, 'package-lock.json'), 'utf8')) as { packages: object };
  const packages = { ...lock.packages, '': {} };
  await writeFile(join(folder, 'package-lock.json'), JSON.stringify({ ...lock, packages }));
}

/** Runs npm in a folder, as a user does. */
function npm(folder: string, ...args: string[]): Promise<{ stdout: string; stderr: string }> {
  return run('npm', args, { cwd: folder, env: USER_ENVIRONMENT });
}
