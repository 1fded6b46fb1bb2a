import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, readFile, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { limitMemory } from '../support/memory-limit.js';
import { linesOf, makePlace, until, type Place, type Program } from '../support/process.js';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const PETS = '{ pets(limit: 100) { id name categoryId status } }';

describe('the first start of an empty embedded store', () => {
  let place: Place;
  let program: Program;
  let keys: Record<string, string>;

  beforeAll(async () => {
    place = await makePlace();
    program = await place.start({ PORT: '0' });
    keys = { ...(await place.developmentKeys()) };
  });
  afterAll(() => place.close());

  it('prints one line with its address', async () => {
    const lines = linesOf(program.stdout).filter((line) => line.includes('listening on'));
    expect(lines).toEqual([expect.stringMatching(/listening on http:\/\/127\.0\.0\.1:[1-9]\d*$/)]);
    expect((await program.fetch('/livez')).status).toBe(200);
  });

  it('adds sample animals of every status', async () => {
    const { data } = await program.graphql(PETS, keys.free as string);
    const statuses = (data.pets as { status: string }[]).map(({ status }) => status);
    expect(new Set(statuses)).toEqual(new Set(['AVAILABLE', 'PENDING', 'SOLD', null]));
    expect(statuses.length).toBeLessThan(100);
  });

  it('saves a key for each published plan in dev-keys.json, which only its user can read', async () => {
    const { mode } = await stat(join(place.directory, '.data/dev-keys.json'));
    expect((mode & 0o777).toString(8)).toBe('600');
    expect(Object.keys(keys).sort()).toEqual(['business', 'free', 'pro']);
    for (const [plan, key] of Object.entries(keys)) {
      const { data } = await program.graphql('{ rateLimit { plan } }', key);
      expect(data.rateLimit.plan).toBe(plan.toUpperCase());
    }
  });

  it('says that it creates the store, before it has done so', () => {
    const lines = linesOf(program.stdout);
    const creating = lines.findIndex((line) => line.includes('creating a new store in .data'));
    expect(creating).toBeGreaterThanOrEqual(0);
    expect(lines.findIndex((line) => line.includes('development key'))).toBeGreaterThan(creating);
  });

  it('prints the keys', () => {
    for (const key of Object.values(keys)) expect(program.stdout).toContain(key);
  });

  it('prints a curl line that works in a shell', async () => {
    const line = linesOf(program.stdout).find((text) => text.startsWith('curl ')) as string;
    const { stdout } = await promisify(execFile)('/bin/sh', ['-c', line], {
      env: { PATH: `${process.env.PATH ?? ''}:${await makeCurl(join(place.directory, 'bin'))}` },
    });
    const answer = JSON.parse(stdout);
    expect(answer.errors).toBeUndefined();
    expect(answer.data.pets).toHaveLength(3);
  });

  it('happens once: the next start creates no keys and keeps all animals', async () => {
    const { data } = await program.graphql(
      'mutation { addPet(input: { name: "Zora", categoryId: 7 }) { id } }',
      keys.pro as string,
    );
    const before = await program.graphql(PETS, keys.pro as string);
    const file = await readFile(join(place.directory, '.data/dev-keys.json'), 'utf8');
    expect((await program.stop()).code).toBe(0);

    const second = await place.start({ PORT: '0', LOG_LEVEL: 'silent' });
    expect(linesOf(second.stdout)).toEqual([
      expect.stringMatching(/^Explorer {2}http:\S+\/explorer#token=[\w-]{22}$/),
      `The animal store is listening on ${second.url}`,
    ]);
    const after = await second.graphql(PETS, keys.pro as string);
    expect(after).toEqual(before);
    expect(after.data.pets).toContainEqual({ id: data.addPet.id, name: 'Zora', categoryId: '7', status: null });
    expect(await readFile(join(place.directory, '.data/dev-keys.json'), 'utf8')).toBe(file);
    const list = await place.keys(['list', '--json']);
    expect(JSON.parse(list.stdout)).toHaveLength(3);
  });
});

it.runIf(process.platform === 'linux')('a new store starts under the limit of the systemd unit', async () => {
  const unit = await readFile(join(ROOT, 'deploy/animal-store.service'), 'utf8');
  const megabytes = Number(/^MemoryMax=(\d+)M$/m.exec(unit)?.[1]);
  const limit = limitMemory(megabytes * 1_048_576);
  const place = await makePlace();
  try {
    const program = place.launch({ PORT: '0' }, limit.launcher);
    expect(await program.listens()).toBe(true);
    const { free } = await place.developmentKeys();
    expect((await program.graphql(PETS, free)).data.pets.length).toBeGreaterThan(0);
    expect((await program.stop()).code).toBe(0);
  } finally {
    await place.close();
    limit.remove();
  }
});

it('npm start builds nothing again, and passes a signal on once', async () => {
  const place = await makePlace();
  const env = { ...process.env, PORT: '0', DATA_DIR: join(place.directory, '.data'), NODE_ENV: 'development' };
  await place.prepareStore();
  await promisify(execFile)(process.execPath, ['scripts/run.mjs', '--version'], { cwd: ROOT });
  const npm = spawn('npm', ['start'], { cwd: ROOT, env, stdio: ['ignore', 'pipe', 'pipe'], detached: true });
  try {
    let output = '';
    for (const stream of [npm.stdout, npm.stderr]) stream.on('data', (text: Buffer) => (output += text.toString()));
    await until('it listens', () => output.includes('listening on') || npm.exitCode !== null);
    expect(output).not.toMatch(/Analyzing|wireit|vite/i);
    // A terminal signals the whole group, and npm passes the signal on as well.
    process.kill(-(npm.pid as number), 'SIGINT');
    const [code] = (await once(npm, 'close')) as [number | null];
    expect(code).toBe(0);
    expect(output.match(/shutting down/g)).toHaveLength(1);
  } finally {
    if (npm.exitCode === null && npm.signalCode === null) process.kill(-(npm.pid as number), 'SIGKILL');
    await place.close();
  }
});

/** Creates a folder with a stand-in `curl` that supports the options of the printed line. */
async function makeCurl(directory: string): Promise<string> {
  await mkdir(directory, { recursive: true });
  const source = `#!${process.execPath}
const [url, ...options] = process.argv.slice(2);
const headers = options.flatMap((option, i) => (option === '-H' ? [options[i + 1].split(': ')] : []));
fetch(url, { method: 'POST', headers, body: options[options.indexOf('-d') + 1] })
  .then((response) => response.text())
  .then((text) => process.stdout.write(text));
`;
  await writeFile(join(directory, 'curl'), source, { mode: 0o755 });
  return directory;
}
