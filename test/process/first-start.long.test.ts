import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { setImmediate } from 'node:timers/promises';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { makePlace, type Place } from '../support/process.js';

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

/** Waits for a file or folder. It polls without a pause so that it cannot miss the moment. */
async function appears(directory: string, prefix: string): Promise<void> {
  const deadline = Date.now() + 60_000;
  while (Date.now() < deadline) {
    if (existsSync(directory) && readdirSync(directory).some((name) => name.startsWith(prefix))) return;
    await setImmediate();
  }
  throw new Error(`${prefix} did not appear in ${directory}`);
}
