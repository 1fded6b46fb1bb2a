import { existsSync, readdirSync } from 'node:fs';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setImmediate, setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { linesOf, makePlace, type Place } from '../support/process.js';

const PETS = '{ pets(limit: 100) { name } }';
const SAMPLE_NAMES = ['Bella', 'Milo', 'Rex', 'Luna', 'Kiwi', 'Žofka', 'ハチ', 'Flocke'];

let place: Place;

beforeEach(async () => {
  place = await makePlace();
});
afterEach(() => place.close());

it('sample animals and development keys are complete after first starts are killed midway', async () => {
  const data = join(place.directory, '.data');
  for (const [directory, prefix] of [
    [join(data, 'postgres.new'), 'PG_VERSION'],
    [join(data, 'postgres'), 'PG_VERSION'],
    [data, 'dev-keys'],
  ] as const) {
    const program = place.launch({ PORT: '0' });
    await appears(directory, prefix);
    expect((await program.stop('SIGKILL')).signal).toBe('SIGKILL');
  }

  const next = await place.start({ PORT: '0' });
  const { free, pro, business } = await place.developmentKeys();
  for (const key of [free, pro, business]) {
    expect(await next.graphql(PETS, key)).toEqual({ data: { pets: SAMPLE_NAMES.map((name) => ({ name })) } });
  }
  const { stdout } = await place.keys(['list', '--json']);
  expect(JSON.parse(stdout)).toHaveLength(3);
});

it('a store that was filled after an interrupted first start gets no sample animals and development keys', async () => {
  const env = { PORT: '0', SAMPLE_DATA: 'false' };
  await place.prepareStore();
  await place.keys(['create', '--plan', 'free']);
  const unfinished = join(place.directory, '.data/dev-keys.json.new');
  await writeFile(unfinished, JSON.stringify({ free: 'one', pro: 'two', business: 'three' }));
  expect((await place.start(env)).stdout).not.toContain('development key');
  expect(existsSync(unfinished)).toBe(false);
  expect(JSON.parse((await place.keys(['list', '--json'])).stdout)).toHaveLength(1);
});

it.runIf(process.platform === 'linux')('a new store takes hardly more memory than at its next start', async () => {
  const first = await measure();
  expect(first).toBeLessThan((await measure()) * 1.1);

  /** Returns the memory of a start once it has settled, in kB. */
  async function measure(): Promise<number> {
    const program = await place.start({ PORT: '0' });
    await sleep(2_000);
    const status = await readFile(`/proc/${program.pid}/status`, 'utf8');
    await program.stop();
    return Number(/^VmRSS:\s+(\d+) kB$/m.exec(status)?.[1]);
  }
});

it('with MIGRATE=false, a new store gets no tables, sample animals and keys until it is migrated', async () => {
  const place = await makePlace();
  try {
    const { stdout, stderr } = await (await place.start({ PORT: '0', MIGRATE: 'false' })).stop();
    expect(stdout).toContain('migrations are pending');
    expect(stdout).not.toContain('development key');
    expect(stderr).toBe('');
    await place.migrate([]);
    expect((await place.start({ PORT: '0', MIGRATE: 'false' })).stdout).toContain('development key');
  } finally {
    await place.close();
  }
});

it('without any key, a server prints the command that creates one', async () => {
  const place = await makePlace();
  try {
    const env = { PORT: '0', DATABASE_URL: await place.database(), NODE_ENV: 'production' };
    const hint = (command: string): string => `There is no API key yet. Create one: ${command} create --plan free`;
    const directly = await place.start(env);
    expect(directly.stdout).toMatch(/Create one: node \S+dist\/cli\/keys\.js create --plan free\n/);
    const byScript = async (name: string) =>
      (await place.start({ ...env, npm_lifecycle_event: 'start', npm_package_name: name })).stdout;
    expect(await byScript('animal-store-gateway')).toContain(hint('npm run --silent keys --'));
    expect(await byScript('their-project')).toMatch(/Create one: node \S+dist\/cli\/keys\.js create/);
    expect((await place.keys(['list'], env)).stdout).toMatch(/To create one: node \S+keys\.js create --plan free\n/);
    await place.keys(['create', '--plan', 'free'], env);
    expect((await place.start(env)).stdout).not.toContain('There is no API key yet');
  } finally {
    await place.close();
  }
});

it('with LOG_LEVEL=silent, a server prints its address and logs nothing', async () => {
  const place = await makePlace();
  try {
    await place.prepareStore();
    const program = await place.start({ PORT: '0', LOG_LEVEL: 'silent' });
    const { free } = await place.developmentKeys();
    await program.graphql(PETS, free);
    const { stdout, stderr } = await program.stop();
    expect(linesOf(stdout).filter((line) => line.includes('listening on'))).toHaveLength(1);
    expect(linesOf(stdout).filter((line) => line.startsWith('{'))).toEqual([]);
    expect(stderr).toBe('');
  } finally {
    await place.close();
  }
});

/** Waits for a file or folder. It polls without a pause so that it cannot miss the moment. */
async function appears(directory: string, prefix: string): Promise<void> {
  const deadline = Date.now() + 60_000;
  while (Date.now() < deadline) {
    if (existsSync(directory) && readdirSync(directory).some((name) => name.startsWith(prefix))) return;
    await setImmediate();
  }
  throw new Error(`${prefix} did not appear in ${directory}`);
}
