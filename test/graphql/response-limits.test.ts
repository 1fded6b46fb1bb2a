import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { MODES, petStatements, startGateway, type Gateway } from '../support/gateway.js';

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
      `{ ${repeat(100, (i) => `a${i}: pet(id: "x") { ...F }`)} } ${NAMES}`,
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

  it('is checked while the response is written', async () => {
    expect((await gateway.graphql('{ pets(limit: 60) { name } }', { key })).status).toBe(200);
    const { status, text, errors } = await gateway.graphql('{ pets(limit: 90) { name } }', { key });
    expect(status).toBe(400);
    expect(JSON.parse(text)).not.toHaveProperty('data');
    expect(errors?.map(({ message, extensions }) => [message, extensions.code])).toEqual([
      ['The response is longer than 20000 bytes: ask for less at once.', 'OPERATION_TOO_LARGE'],
    ]);
  });

  it('includes the errors', async () => {
    const aliases = (count: number) => repeat(count, (i) => `a${i}: pet(id: "${'x'.repeat(80)}") { id }`);
    expect((await gateway.graphql(`{ ${aliases(10)} }`, { key })).status).toBe(200);
    const { status, errors } = await gateway.graphql(`{ ${aliases(100)} }`, { key });
    expect([status, errors?.map(({ extensions }) => extensions.code)]).toEqual([400, ['OPERATION_TOO_LARGE']]);
  });

  it('is not refused for what the fragments of many components have in common', async () => {
    const fragments = repeat(30, (i) => `fragment F${i} on Pet { __typename id name }`);
    const query = `{ pets(limit: 1) { ${repeat(30, (i) => `...F${i}`)} } } ${fragments}`;
    expect((await gateway.graphql(query, { key })).errors).toBeUndefined();
  });

  it('is limited for the whole HTTP request', async () => {
    const entry = { query: '{ pets(limit: 60) { name } }' };
    const response = await gateway.fetch('/graphql', {
      method: 'POST',
      headers: { 'Content-Type': 'application/json', Authorization: `Bearer ${key}` },
      body: JSON.stringify([entry, entry, { query: '{ pet(id: 1) { id } }' }]),
    });
    const entries = (await response.json()) as { data?: unknown; errors?: { extensions: { code: string } }[] }[];
    expect(response.status).toBe(200);
    expect(entries.map(({ data, errors }) => (data === undefined ? errors?.[0]?.extensions.code : 'data'))).toEqual([
      'data',
      'OPERATION_TOO_LARGE',
      'data',
    ]);
  });

  it('is counted in bytes, not in characters', async () => {
    await gateway.sql(`UPDATE pets SET name = repeat('猫', 255) WHERE id <= 60`);
    const { status } = await gateway.graphql('{ pets(limit: 60) { name } }', { key });
    await gateway.sql(`UPDATE pets SET name = repeat('x', 255) WHERE id <= 60`);
    expect(status).toBe(400);
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
