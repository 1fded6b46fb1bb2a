import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startGateway, MODES, type Gateway } from '../support/gateway.js';

const EDGES = [
  '9007199254740991',
  '9007199254740992',
  '9007199254740993',
  '-9007199254740993',
  '9223372036854775807',
  '-9223372036854775808',
  '1000000000000000000',
  '0',
  '1',
  '-1',
];

/** The number of random identifiers. Set `INT64_IDS=10000` for a longer run. */
const COUNT = Number(process.env.INT64_IDS ?? 600);

/** Edge cases and numbers of every length. A uniformly random int64 nearly always has 18 or 19 digits. */
function makeIds(): readonly string[] {
  const random = Array.from({ length: COUNT }, (_, i) => randomBytes(8).readBigInt64BE() >> BigInt(i % 64));
  return [...new Set([...EDGES, ...random.map(String)])];
}

describe.each(MODES)('int64 identifiers through GraphQL, %s store', (mode) => {
  const ids = makeIds();
  let gateway: Gateway;
  let key: string;

  beforeAll(async () => {
    gateway = await startGateway(mode);
    ({ key } = await gateway.createKey({ plan: 'enterprise', limits: { perMinute: 100_000, perDay: 1_000_000 } }));
    await gateway.sql(
      `INSERT INTO pets (id, name, category_id) SELECT id, 'pet ' || id, id FROM unnest($1::bigint[]) AS id`,
      [ids],
    );
    await gateway.sql('ALTER TABLE pets ALTER COLUMN id RESTART WITH 5000000000000000001');
  });
  afterAll(() => gateway.close());

  /** Looks up all ids, a hundred aliases per operation. */
  async function lookUpAll(toArgument: (id: string, i: number) => string, declare: boolean, toJson = JSON.stringify) {
    const found: unknown[] = [];
    for (let start = 0; start < ids.length; start += 100) {
      const page = ids.slice(start, start + 100);
      const fields = page.map((id, i) => `a${i}: pet(id: ${toArgument(id, i)}) { id name categoryId }`).join(' ');
      const variables = declare ? `query (${page.map((_, i) => `$v${i}: ID!`).join(' ')})` : '';
      const { data, errors } = await gateway.graphql(`${variables} { ${fields} }`, {
        key,
        rawVariables: declare ? `{${page.map((id, i) => `"v${i}":${toJson(id)}`).join(',')}}` : '{}',
      });
      expect(errors).toBeUndefined();
      found.push(...page.map((_, i) => (data as Record<string, unknown>)[`a${i}`]));
    }
    return found;
  }

  it('are mostly distinct in the random sample', () => {
    expect(ids.length).toBeGreaterThan(COUNT * 0.8);
  });

  it.each([
    ['integer literals', (id: string) => id, false, JSON.stringify],
    ['string literals', (id: string) => JSON.stringify(id), false, JSON.stringify],
    ['string variables', (_: string, i: number) => `$v${i}`, true, JSON.stringify],
    ['JSON numbers in variables', (_: string, i: number) => `$v${i}`, true, (id: string) => id],
  ])('are returned exactly when sent as %s', async (_, toArgument, declare, toJson) => {
    const expected = ids.map((id) => ({ id, name: `pet ${id}`, categoryId: id }));
    expect(await lookUpAll(toArgument, declare, toJson)).toEqual(expected);
  });

  it('are listed exactly and in numeric order', async () => {
    const { data } = await gateway.graphql('{ pets(limit: 100) { id categoryId } }', { key });
    const sorted = [...ids].sort((a, b) => (BigInt(a) < BigInt(b) ? -1 : 1));
    expect(data.pets).toEqual(sorted.slice(0, 100).map((id) => ({ id, categoryId: id })));
  });

  it('are returned exactly when sent in the query string of a GET', async () => {
    const parameters = new URLSearchParams({
      query: 'query ($a: ID!, $b: ID!) { a: pet(id: $a) { id } b: pet(id: $b) { id } }',
      variables: '{"a":9007199254740993,"b":"-9223372036854775808"}',
    });
    const answer = await gateway.fetch(`/graphql?${parameters.toString()}`, {
      headers: { Authorization: `Bearer ${key}` },
    });
    expect(await answer.json()).toMatchObject({
      data: { a: { id: '9007199254740993' }, b: { id: '-9223372036854775808' } },
    });
  });

  it('are stored exactly by addPet for every form of categoryId', async () => {
    const fields = EDGES.flatMap((id, i) => [
      `l${i}: addPet(input: { name: "l", categoryId: ${id} }) { categoryId }`,
      `s${i}: addPet(input: { name: "s", categoryId: "${id}" }) { categoryId }`,
      `v${i}: addPet(input: { name: "v", categoryId: $v${i} }) { categoryId }`,
      `o${i}: addPet(input: $o${i}) { categoryId }`,
      `n${i}: addPet(input: $n${i}) { categoryId }`,
    ]);
    const declared = EDGES.map((_, i) => `$v${i}: ID! $o${i}: NewPet! $n${i}: NewPet!`).join(' ');
    const values = EDGES.map(
      (id, i) => `"v${i}":${id},"o${i}":{"name":"o","categoryId":"${id}"},"n${i}":{"name":"n","categoryId":${id}}`,
    );
    const { data, errors } = await gateway.graphql(`mutation (${declared}) { ${fields.join(' ')} }`, {
      key,
      rawVariables: `{${values.join(',')}}`,
    });
    expect(errors).toBeUndefined();
    const expected = EDGES.flatMap((id, i) =>
      ['l', 's', 'v', 'o', 'n'].map((way) => [`${way}${i}`, { categoryId: id }]),
    );
    expect(data).toEqual(Object.fromEntries(expected));
    const stored = await gateway.sql<{ id: string }>(
      `SELECT category_id::text AS id FROM pets WHERE name = 'n' ORDER BY pets.id`,
    );
    expect(stored.map(({ id }) => id)).toEqual(EDGES);
  });

  it('are assigned and returned exactly by addPet above 2^53', async () => {
    const added = await gateway.graphql('mutation { addPet(input: { name: "Far", categoryId: 1 }) { id } }', { key });
    const { id } = added.data.addPet as { id: string };
    expect(BigInt(id)).toBeGreaterThanOrEqual(5000000000000000001n);
    const { data } = await gateway.graphql(`{ pet(id: "${id}") { id name } }`, { key });
    expect(data.pet).toEqual({ id, name: 'Far' });
  });

  it('are distinguished from adjacent values', async () => {
    const { data, errors } = await gateway.graphql(
      'query ($id: ID!) { a: pet(id: 9223372036854775806) { id } b: pet(id: $id) { id } }',
      { key, rawVariables: '{"id":9007199254740995}' },
    );
    expect(data).toEqual({ a: null, b: null });
    expect(errors?.map(({ extensions }) => extensions.code)).toEqual(['NOT_FOUND', 'NOT_FOUND']);
  });
});
