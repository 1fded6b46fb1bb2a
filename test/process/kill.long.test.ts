import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { makePlace, until, type Place, type Program } from '../support/process.js';

/** How often each store is killed. */
const KILLS = 50;
/** How many animals are acknowledged before each kill. */
const ADDS = 60;
const CONNECTIONS = 8;
/** Lookups in one operation; the default of MAX_ROOT_FIELDS. */
const LOOKUPS = 100;

describe.each(['embedded', 'server'])('kill -9 of a store (%s) while animals are added', (mode) => {
  let place: Place;

  beforeEach(async () => {
    place = await makePlace();
  });
  afterEach(() => place.close());

  it('neither loses nor duplicates an acknowledged animal', { timeout: 60_000 + KILLS * 20_000 }, async () => {
    const env: Record<string, string> = { PORT: '0', SAMPLE_DATA: 'false', LOG_LEVEL: 'warn' };
    if (mode === 'server') env.DATABASE_URL = await place.database();
    else await place.prepareStore();
    let program = await place.start(env);
    const limits = ['--per-minute', '1000000', '--per-day', '1000000'];
    const { stdout } = await place.keys(['create', '--plan', 'enterprise', ...limits, '--json'], env);
    const { key } = JSON.parse(stdout) as { key: string };

    const acknowledged = new Map<string, string>();
    for (let kill = 0; kill < KILLS; kill++) {
      const before = acknowledged.size;
      const adding = addAnimals(program, key, acknowledged);
      await until('enough animals are acknowledged', () => acknowledged.size >= before + ADDS);
      expect((await program.stop('SIGKILL')).signal).toBe('SIGKILL');
      await adding;
      program = await place.start(env);
    }

    const found = await findAnimals(program, key, Math.max(...[...acknowledged.values()].map(Number)) + LOOKUPS);
    const names = [...found.values()];
    expect(new Set(names).size).toBe(names.length);
    for (const [name, id] of acknowledged) expect(found.get(id)).toBe(name);
    const { data } = await program.graphql(
      'mutation { addPet(input: { name: "Phoenix", categoryId: 1 }) { id } }',
      key,
    );
    expect(found.has(data.addPet.id as string)).toBe(false);
  });
});

/** Adds animals over several connections, half by GraphQL and half by REST, until the server dies. */
async function addAnimals(program: Program, key: string, acknowledged: Map<string, string>): Promise<void> {
  const workers = Array.from({ length: CONNECTIONS }, async (_, worker) => {
    for (let i = 0; ; i++) {
      const name = `animal ${program.pid} ${worker} ${i}`;
      const id = await (worker % 2 === 0 ? addByGraphql : addByRest)(program, key, name).catch(() => undefined);
      if (id === undefined) return;
      acknowledged.set(name, id);
    }
  });
  await Promise.all(workers);
}

async function addByGraphql(program: Program, key: string, name: string): Promise<string> {
  const query = 'mutation ($name: String!) { addPet(input: { name: $name, categoryId: 1 }) { id } }';
  const { data } = await program.graphql(query, key, { name });
  return data.addPet.id as string;
}

async function addByRest(program: Program, key: string, name: string): Promise<string> {
  const response = await program.fetch('/v1/pets', {
    method: 'POST',
    headers: { 'Content-Type': 'application/json', Authorization: `Bearer ${key}` },
    body: JSON.stringify({ name, categoryId: 1 }),
  });
  if (response.status !== 201) throw new Error(await response.text());
  return String(((await response.json()) as { id: number }).id);
}

/** Looks up every animal up to an identifier. Returns the names by identifier. */
async function findAnimals(program: Program, key: string, last: number): Promise<Map<string, string>> {
  const found = new Map<string, string>();
  for (let first = 1; first <= last; first += LOOKUPS) {
    const lookups = Array.from({ length: LOOKUPS }, (_, i) => `p${i}: pet(id: ${first + i}) { id name }`);
    const { data } = await program.graphql(`{ ${lookups.join(' ')} }`, key);
    for (const pet of Object.values(data as Record<string, { id: string; name: string } | null>)) {
      if (pet) found.set(pet.id, pet.name);
    }
  }
  return found;
}
