import { readdir } from 'node:fs/promises';
import { createServer, type AddressInfo } from 'node:net';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { makePlace, type Place } from '../support/process.js';

const PETS = '{ pets(limit: 100) { name } }';

describe('sample animals and development keys', () => {
  let place: Place;

  beforeEach(async () => {
    place = await makePlace();
  });
  afterEach(() => place.close());

  async function createKey(env: Record<string, string>): Promise<string> {
    const { stdout } = await place.keys(['create', '--plan', 'free', '--json'], env);
    return JSON.parse(stdout).key as string;
  }

  async function listKeys(env: Record<string, string>): Promise<unknown[]> {
    return JSON.parse((await place.keys(['list', '--json'], env)).stdout) as unknown[];
  }

  it('with SAMPLE_DATA=false, the store has keys and no animals', async () => {
    await place.prepareStore();
    const program = await place.start({ PORT: '0', SAMPLE_DATA: 'false' });
    const { free, pro, business } = await place.developmentKeys();
    for (const key of [free, pro, business]) {
      expect(program.stdout).toContain(key);
      expect(await program.graphql(PETS, key)).toEqual({ data: { pets: [] } });
    }
  });

  it('with NODE_ENV=production, the store has neither', async () => {
    await place.prepareStore();
    const env = { PORT: '0', NODE_ENV: 'production' };
    const program = await place.start(env);
    expect(program.stdout).not.toMatch(/pets_|curl/);
    expect(await readdir(join(place.directory, '.data'))).not.toContain('dev-keys.json');
    expect(await listKeys(env)).toEqual([]);
    expect(await program.graphql(PETS, await createKey(env))).toEqual({ data: { pets: [] } });
  });

  it('with DATABASE_URL, the store has neither, and no data directory is created', async () => {
    const env = { PORT: '0', DATABASE_URL: await place.database() };
    const program = await place.start(env);
    expect(program.stdout).not.toMatch(/pets_|curl/);
    expect(await listKeys(env)).toEqual([]);
    expect(await program.graphql(PETS, await createKey(env))).toEqual({ data: { pets: [] } });
    expect(await readdir(place.directory)).toEqual([]);
  });

  it('are created by the first start that can listen, which prints the keys', async () => {
    await place.prepareStore();
    const taken = createServer();
    await new Promise<void>((ready) => taken.listen(0, '127.0.0.1', ready));
    const { port } = taken.address() as AddressInfo;
    expect((await place.run({ PORT: String(port) })).code).toBe(1);
    await new Promise((closed) => taken.close(closed));

    const program = await place.start({ PORT: '0' });
    const { free } = await place.developmentKeys();
    expect(program.stdout).toContain(free);
    const { data } = await program.graphql(PETS, free);
    expect(data.pets.length).toBeGreaterThan(0);
  });
});
