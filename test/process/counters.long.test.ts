import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { findFreePort, makePlace, until, type Place, type Program } from '../support/process.js';
import { startScriptedUpstream } from '../support/scripted-upstream.js';

describe('the counters of an instance without Redis', () => {
  let place: Place;

  beforeEach(async () => {
    place = await makePlace();
  });
  afterEach(() => place.close());

  /** Sends an operation that costs 1. Returns what is left of the 60 of the minute. */
  async function remaining(program: Program, key: string): Promise<string | null> {
    const body = JSON.stringify({ query: '{ pets(limit: 1) { id } }' });
    const headers = { Authorization: `Bearer ${key}`, 'Content-Type': 'application/json' };
    const response = await program.fetch('/graphql', { method: 'POST', headers, body });
    return response.headers.get('x-ratelimit-remaining');
  }

  /** Waits until the counters file of a server has what this many requests of one key used. */
  function untilSaved(count: number, file: string): Promise<void> {
    const path = join(place.directory, '.data', file);
    const isSaved = async (): Promise<boolean> =>
      (await readFile(path, 'utf8').catch(() => '')).includes(`"used":[${count},`);
    return until(`${file} has the counters`, isSaved);
  }

  async function expectToSurvive(
    env: Record<string, string>,
    findKey: () => Promise<string>,
    file = 'limits-0.json',
  ): Promise<void> {
    const program = await place.start(env);
    const key = await findKey();
    for (let i = 0; i < 9; i++) await remaining(program, key);
    await untilSaved(9, file);
    await program.stop('SIGKILL');
    const next = await place.start(env);
    expect(await remaining(next, key)).toBe('50');
  }

  async function createKey(env: Record<string, string>): Promise<string> {
    const { stdout } = await place.keys(['create', '--plan', 'free', '--json'], env);
    return (JSON.parse(stdout) as { key: string }).key;
  }

  it('survive kill -9 of an embedded store', async () => {
    await expectToSurvive(
      { PORT: '0', SAMPLE_DATA: 'false' },
      async () => (await place.developmentKeys()).free,
      'limits.json',
    );
  });

  it('survive kill -9 of a store on a PostgreSQL server', async () => {
    const env = { PORT: '0', DATABASE_URL: await place.database() };
    await expectToSurvive(env, () => createKey(env));
  });

  it('survive kill -9 of a gateway that counts by itself', async () => {
    const upstream = await startScriptedUpstream((_, response) => {
      response.setHeader('Content-Type', 'application/json').end('[]');
    });
    await expectToSurvive({ PORT: '0', UPSTREAM_URL: upstream.url, DEFAULT_PLAN: 'free' }, () => Promise.resolve('k'));
    await upstream.close();
  });

  it('restart, after one warning, where they cannot be written', async () => {
    await writeFile(join(place.directory, 'file'), '');
    const env = { PORT: '0', DATABASE_URL: await place.database(), DATA_DIR: 'file/counters' };
    const program = await place.start(env);
    const key = await createKey(env);
    for (let i = 0; i < 3; i++) {
      await remaining(program, key);
      await sleep(1_000);
    }
    const { stdout, stderr } = await program.stop();
    expect((stdout + stderr).match(/the counters cannot be written/g)).toHaveLength(1);
  });

  it('are not those of another instance in the same directory', async () => {
    const database = { DATABASE_URL: await place.database() };
    const [firstPort, secondPort] = [await findFreePort(), await findFreePort()];
    const first = await place.start({ ...database, PORT: String(firstPort) });
    const second = await place.start({ ...database, PORT: String(secondPort) });
    const key = await createKey(database);
    for (let i = 0; i < 9; i++) await remaining(first, key);
    await untilSaved(9, `limits-${firstPort}.json`);
    await remaining(second, await createKey(database));
    await untilSaved(1, `limits-${secondPort}.json`);
    await first.stop('SIGKILL');
    const next = await place.start({ ...database, PORT: String(firstPort) });
    expect(await remaining(next, key)).toBe('50');
  });
});
