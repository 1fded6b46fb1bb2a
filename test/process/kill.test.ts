import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { makePlace, until, type Place, type Program } from '../support/process.js';

const ADDS = 1_000;
const CONNECTIONS = 8;
/** Lookups in one operation, by MAX_ROOT_FIELDS. */
const LOOKUPS = 100;

describe.each(['embedded', 'server'])('kill -9 of a %s store in the middle of 1,000 adds', (mode) => {
  let place: Place;

  beforeEach(async () => {
    place = await makePlace();
  });
  afterEach(() => place.close());

  it('loses and doubles no animal that was acknowledged', async () => {
    const env: Record<string, string> = { PORT: '0', SAMPLE_DATA: 'false', LOG_LEVEL: 'warn' };
    if (mode === 'server') env.DATABASE_URL = await place.database();
    const program = await place.start(env);
    const limits = ['--per-minute', '1000000', '--per-day', '1000000'];
    const { stdout } = await place.keys(['create', '--plan', 'enterprise', ...limits, '--json'], env);
    const { key } = JSON.parse(stdout) as { key: string };

    const acknowledged = new Map<string, string>();
    const adding = addAnimals(program, key, acknowledged);
    await until('some hundred animals are acknowledged', () => acknowledged.size >= 400);
    expect((await program.stop('SIGKILL')).signal).toBe('SIGKILL');
    await adding;
    expect(acknowledged.size).toBeLessThan(ADDS);

    const next = await place.start(env);
    const found = await findAnimals(next, key, Math.max(...[...acknowledged.values()].map(Number)) + LOOKUPS);
    const names = [...found.values()];
    expect(new Set(names).size).toBe(names.length);
    for (const [name, id] of acknowledged) expect(found.get(id)).toBe(name);
    const { data } = await next.graphql('mutation { addPet(input: { name: "Phoenix", categoryId: 1 }) { id } }', key);
    expect(found.has(data.addPet.id as string)).toBe(false);
  });
});

/** Adds animals over several connections, half by GraphQL and half by REST, until the server is gone. */
async function addAnimals(program: Program, key: string, acknowledged: Map<string, string>): Promise<void> {
  const names = Array.from({ length: ADDS }, (_, i) => `animal ${i}`).values();
  const workers = Array.from({ length: CONNECTIONS }, async (_, worker) => {
    for (const name of names) {
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

/** Looks every animal up to an identifier up, and returns the names by identifier. */
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
