import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { StoreError } from '../../src/errors.js';
import type { Int64 } from '../../src/pets/int64.js';
import type { Pet } from '../../src/pets/pet.js';
import type { PetSource } from '../../src/pets/pet-source.js';
import { MODES, petStatements, startGateway, type Gateway } from '../support/gateway.js';
import { startEngine, type EngineResult } from './engine.js';

const repeat = (count: number, part: (index: number) => string) =>
  Array.from({ length: count }, (_, i) => part(i)).join(' ');
const NAMES = `fragment F on Pet { ${repeat(20, (i) => `n${i}: name`)} }`;

describe.each(MODES)('response size, %s store', (mode) => {
  let gateway: Gateway;
  let key: string;

  beforeAll(async () => {
    gateway = await startGateway(mode, { MAX_RESPONSE_BYTES: '20000' });
    ({ key } = await gateway.createKey({ plan: 'business' }));
    await gateway.sql(`INSERT INTO pets (name, category_id) SELECT repeat('x', 255), 1 FROM generate_series(1, 100)`);
    await gateway.graphql('{ pets(limit: 1) { id } }', { key });
  });
  afterAll(() => gateway.close());

  async function remaining(): Promise<string | null> {
    return (await gateway.graphql('{ __typename }', { key })).headers.get('x-ratelimit-remaining');
  }

  it.each([
    [
      'twenty names of an animal under a hundred aliases',
      `{ ${repeat(100, (i) => `a${i}: pet(id: ${i}) { ...F }`)} } ${NAMES}`,
    ],
    [
      'twenty names of a hundred animals, a hundred times',
      `{ ${repeat(100, (i) => `a${i}: pets(limit: 100) { ...F }`)} } ${NAMES}`,
    ],
    ['two hundred names of a hundred animals', `{ pets(limit: 100) { ${repeat(200, (i) => `n${i}: name`)} } }`],
    [
      'seven values of a hundred animals, a hundred times',
      `{ ${repeat(100, (i) => `a${i}: pets(limit: 100) { ${repeat(7, (j) => `n${j}: name`)} }`)} }`,
    ],
  ])('is checked before anything runs: %s', async (_, query) => {
    const before = await remaining();
    gateway.statements.length = 0;
    const { status, text, errors } = await gateway.graphql(query, { key });
    expect(status).toBe(400);
    expect(JSON.parse(text)).not.toHaveProperty('data');
    expect(errors?.map(({ extensions }) => extensions.code)).toEqual(['OPERATION_TOO_LARGE']);
    expect(petStatements(gateway)).toEqual([]);
    expect(await remaining()).toBe(before);
  });

  it('counts the longest names that the animals could have', async () => {
    expect((await gateway.graphql('{ pets(limit: 12) { name } }', { key })).status).toBe(200);
    expect((await gateway.graphql('{ pets(limit: 13) { name } }', { key })).status).toBe(400);
    expect((await gateway.graphql('{ pets(limit: 100) { id categoryId } }', { key })).status).toBe(200);
  });

  it('is not refused for what the fragments of many components have in common', async () => {
    const fragments = repeat(30, (i) => `fragment F${i} on Pet { __typename id name }`);
    const query = `{ pets(limit: 1) { ${repeat(30, (i) => `...F${i}`)} } } ${fragments}`;
    expect((await gateway.graphql(query, { key })).errors).toBeUndefined();
  });

  it('is limited for the whole HTTP request', async () => {
    const entry = { query: '{ pets(limit: 10) { name } }' };
    const response = await gateway.fetch('/graphql', {
      method: 'POST',
      headers: { 'Content-Type': 'application/json', Authorization: `Bearer ${key}` },
      body: JSON.stringify([entry, entry, { query: '{ pet(id: 1) { id } }' }]),
    });
    const entries = (await response.json()) as {
      data?: unknown;
      errors?: { message: string; extensions: { code: string } }[];
    }[];
    expect(response.status).toBe(200);
    expect(entries.map(({ data, errors }) => (data === undefined ? errors?.[0]?.extensions.code : 'data'))).toEqual([
      'data',
      'OPERATION_TOO_LARGE',
      'data',
    ]);
    expect(entries[1]?.errors?.[0]?.message).toMatch(
      /^The operations of one HTTP request could together return more than 20000 bytes /,
    );
  });
});

describe.each(MODES)('response size, %s store with the smallest limit', (mode) => {
  let gateway: Gateway;
  let key: string;

  beforeAll(async () => {
    gateway = await startGateway(mode, { MAX_RESPONSE_BYTES: '1000' });
    ({ key } = await gateway.createKey({ plan: 'business' }));
    // A gateway learns the limits from the first answer.
    await gateway.graphql('{ pets(limit: 1) { id } }', { key });
  });
  afterAll(() => gateway.close());

  it.each([
    ['in one operation', false],
    ['in a batch', true],
  ])('refuses ten additions before anything is added, %s', async (_, isBatch) => {
    const add = (i: number) => `a${i}: addPet(input: { name: "Rex", categoryId: 1 }) { id name }`;
    const body = isBatch
      ? Array.from({ length: 10 }, (__, i) => ({ query: `mutation { ${add(i)} }` }))
      : { query: `mutation { ${repeat(10, add)} }` };
    const response = await gateway.fetch('/graphql', {
      method: 'POST',
      headers: { 'Content-Type': 'application/json', Authorization: `Bearer ${key}` },
      body: JSON.stringify(body),
    });
    expect(response.status).toBe(400);
    expect(await response.text()).toContain('OPERATION_TOO_LARGE');
    expect(response.headers.get('x-ratelimit-remaining')).toBe('999');
    expect(await gateway.sql('SELECT id FROM pets')).toEqual([]);
  });

  it('answers one small addition', async () => {
    const query = 'mutation { addPet(input: { name: "Rex", categoryId: 1 }) { id } }';
    expect((await gateway.graphql(query, { key })).data).toEqual({ addPet: { id: expect.any(String) as string } });
  });
});

describe('the longest possible response', () => {
  const name = '\u0001'.repeat(255);
  const status = 'available' as const;
  const pet = { id: '-9223372036854775808' as Int64, name, categoryId: '-9223372036854775808' as Int64, status };
  const toSource = (one: Pet): PetSource => ({
    list: ({ limit }) => Promise.resolve(Array.from({ length: limit }, () => one)),
    findMany: (ids) => Promise.resolve(new Map(ids.map((id) => [id, one]))),
    add: () => Promise.resolve(one),
  });
  const ALL = 'id name categoryId status __typename';

  it('is not exceeded', async () => {
    // Each document is refused by a limit that is one byte below its estimate, which the test searches.
    for (const query of [
      `{ pets(limit: 100) { ${ALL} } }`,
      `{ ${repeat(20, (i) => `a${i}: pet(id: ${i}) { ${ALL} alias${i}: name }`)} }`,
      `mutation { ${repeat(5, (i) => `a${i}: addPet(input: { name: "x", categoryId: 1 }) { ${ALL} }`)} }`,
      '{ __schema { types { name fields { name description } } } }',
    ]) {
      const lengthWith = async (maxResponseBytes: number): Promise<number | undefined> => {
        const engine = await startEngine(toSource(pet), { maxResponseBytes });
        const [body = ''] = await engine.execute([{ query }]);
        await engine.stop();
        return body.includes('OPERATION_TOO_LARGE') ? undefined : Buffer.byteLength(body);
      };
      const length = (await lengthWith(8_388_608)) as number;
      expect(length).toBeGreaterThan(1_000);
      expect(await lengthWith(length - 1)).toBeUndefined();
    }
  });

  it('leaves room for 4,800 whole animals, or ten thousand without names', async () => {
    const engine = await startEngine(toSource(pet));
    const one = `pets(limit: 100) { ${ALL} }`;
    const body = { query: `{ ${repeat(48, (i) => `a${i}: ${one}`)} }` };
    const [whole = ''] = await engine.execute([body]);
    const [unnamed = ''] = await engine.execute([
      { query: `{ ${repeat(100, (i) => `a${i}: pets(limit: 100) { id categoryId }`)} }` },
    ]);
    await engine.stop();
    expect(whole).not.toContain('OPERATION_TOO_LARGE');
    expect(unnamed).not.toContain('OPERATION_TOO_LARGE');
  });
});

describe('an animal of an upstream with an unknown status', () => {
  const error = new StoreError('upstream_error', 'The status is not known.');
  const [first, second] = [1, 2].map((id) => ({ id: String(id) as Int64, name: 'Rex', categoryId: '1' as Int64 }));
  const source: PetSource = {
    list: () =>
      Promise.resolve([
        { ...(first as Pet), statusError: error },
        { ...(second as Pet), status: 'sold' },
      ]),
    findMany: (ids) => Promise.resolve(new Map(ids.map((id) => [id, { ...(first as Pet), statusError: error }]))),
    add: () => Promise.reject(error),
  };

  it('has an error at each place where its status is selected', async () => {
    const engine = await startEngine(source);
    const { data, errors } = await engine.run(
      '{ pets { id status } pet(id: 1) { s: status status } other: pets { id } }',
    );
    expect(data).toEqual({
      pets: [
        { id: '1', status: null },
        { id: '2', status: 'SOLD' },
      ],
      pet: { s: null, status: null },
      other: [{ id: '1' }, { id: '2' }],
    });
    expect(errors).toMatchObject([
      { path: ['pets', 0, 'status'], locations: [{ line: 1, column: 13 }], extensions: { code: 'UPSTREAM_ERROR' } },
      { path: ['pet', 's'], extensions: { code: 'UPSTREAM_ERROR' } },
      { path: ['pet', 'status'], extensions: { code: 'UPSTREAM_ERROR' } },
    ]);
    expect(errors).toHaveLength(3);
    expect((await engine.run('{ pets { name } }')).errors).toBeUndefined();
    await engine.stop();
  });

  const many: PetSource = {
    ...source,
    list: ({ limit }) =>
      Promise.resolve(Array.from({ length: limit }, () => ({ ...(first as Pet), statusError: error }))),
  };

  it('has an error at each of three places in a list of a hundred', async () => {
    const engine = await startEngine(many);
    const { errors } = await engine.run('{ pets(limit: 100) { a: status b: status c: status } }');
    await engine.stop();
    expect(errors).toHaveLength(300);
    expect(errors?.at(-1)?.path).toEqual(['pets', 99, 'c']);
  });

  it('has no error of its own beyond a thousand in an HTTP request', async () => {
    const engine = await startEngine(many);
    const query = `{ pets(limit: 100) { ${repeat(7, (i) => `a${i}: status`)} } }`;
    const bodies = await engine.execute([{ query }, { query }]);
    await engine.stop();
    const results = bodies.map((body) => JSON.parse(body) as EngineResult);
    expect(results.map(({ errors }) => errors?.length)).toEqual([700, 300]);
    expect(results.map(({ data }) => (data?.pets as unknown[]).length)).toEqual([100, 100]);
  });
});

describe.each(MODES)('@skip and @include, %s store', (mode) => {
  let gateway: Gateway;
  let key: string;

  beforeAll(async () => {
    gateway = await startGateway(mode);
    ({ key } = await gateway.createKey({ plan: 'business' }));
    await gateway.sql(`INSERT INTO pets (name, category_id) VALUES ('Bella', 10)`);
  });
  afterAll(() => gateway.close());

  it('are evaluated for every request, with more combinations than the cache holds', async () => {
    const names = ['a', 'b', 'c', 'd', 'e', 'f'];
    const query = `query (${names.map((name) => `$${name}: Boolean!`).join(' ')}) {
      pet(id: 1) { ${names.map((name) => `${name}: name @include(if: $${name})`).join(' ')} id ...F @skip(if: $a) } }
      fragment F on Pet { categoryId }`;
    for (let round = 0; round < 2; round++) {
      for (let bits = 0; bits < 64; bits++) {
        const variables = Object.fromEntries(names.map((name, i) => [name, (bits & (1 << i)) > 0]));
        const { data } = await gateway.graphql(query, { key, variables });
        const included = names.filter((name) => variables[name]).map((name) => [name, 'Bella']);
        expect(data.pet).toEqual({
          ...Object.fromEntries(included),
          id: '1',
          ...(!variables.a && { categoryId: '10' }),
        });
      }
    }
  });
});
