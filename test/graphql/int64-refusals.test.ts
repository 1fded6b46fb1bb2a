import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startGateway, MODES, type Gateway, type GraphqlAnswer } from '../support/gateway.js';

const BAD_TEXTS = [
  '007',
  '+1',
  '1e3',
  '0x5',
  ' 1',
  '1 ',
  '',
  '-0',
  '-01',
  '--1',
  '-',
  '1.0',
  '1n',
  '1_000',
  '１',
  'true',
  'null',
  'NaN',
  '9223372036854775808',
  '-9223372036854775809',
  '18446744073709551615',
  '99999999999999999999999999999999',
];
const BAD_LITERALS = ['1.5', '1.0', '1e3', '-0', '9223372036854775808', '-9223372036854775809', 'true', 'false'];
const BAD_JSON = [...BAD_LITERALS, '1E3', '-0.0', '1e-1', '100000000000000000000.5', '9.007199254740993e15'];

describe.each(MODES)('invalid int64 identifiers, %s store', (mode) => {
  let gateway: Gateway;
  let key: string;

  beforeAll(async () => {
    gateway = await startGateway(mode);
    ({ key } = await gateway.createKey());
    await gateway.sql(`INSERT INTO pets (name, category_id) VALUES ('Bella', 10)`);
  });
  afterAll(() => gateway.close());

  /** Expects BAD_USER_INPUT at each alias `bad…`, and data at the sibling `ok`. */
  function expectRefused({ status, data, errors }: GraphqlAnswer, count: number): void {
    expect(status).toBe(200);
    const { ok, ...bad } = data as Record<string, unknown>;
    expect(ok).toEqual({ name: 'Bella' });
    const names = Array.from({ length: count }, (_, i) => `bad${i}`);
    expect(bad).toEqual(Object.fromEntries(names.map((name) => [name, null])));
    expect(errors?.map(({ path }) => path?.join('.')).sort()).toEqual([...names].sort());
    for (const { message, extensions } of errors ?? []) {
      expect(extensions.code).toBe('BAD_USER_INPUT');
      expect(extensions.error).toEqual({ code: 'invalid_request', message, status: 400 });
    }
  }

  it.each([
    ['string literals', BAD_TEXTS.map((text) => JSON.stringify(text))],
    ['literals other than strings', BAD_LITERALS],
  ])('cause a field error of pet for %s', async (_, literals) => {
    const bad = literals.map((literal, i) => `bad${i}: pet(id: ${literal}) { id }`).join(' ');
    expectRefused(await gateway.graphql(`{ ok: pet(id: 1) { name } ${bad} }`, { key }), literals.length);
  });

  it.each([
    ['string variables', BAD_TEXTS.map((text) => JSON.stringify(text))],
    ['JSON numbers and booleans in variables', BAD_JSON],
  ])('cause a field error of pet for %s', async (_, values) => {
    const bad = values.map((_value, i) => `bad${i}: pet(id: $v${i}) { id }`).join(' ');
    const declared = values.map((_value, i) => `$v${i}: ID!`).join(' ');
    const answer = await gateway.graphql(`query (${declared}) { ok: pet(id: 1) { name } ${bad} }`, {
      key,
      rawVariables: `{${values.map((value, i) => `"v${i}":${value}`).join(',')}}`,
    });
    expectRefused(answer, values.length);
  });

  it('cause a field error of pet for a null variable', async () => {
    const query = 'query ($id: ID = 1) { ok: pet(id: 1) { name } bad0: pet(id: $id) { name } }';
    const { status, data, errors } = await gateway.graphql(query, { key, variables: { id: null } });
    expect(status).toBe(200);
    expect(data).toEqual({ ok: { name: 'Bella' }, bad0: null });
    expect(errors?.map(({ path, extensions }) => [path, extensions.code])).toEqual([[['bad0'], 'BAD_USER_INPUT']]);
  });

  it.each([
    ['literals', [...BAD_TEXTS.map((text) => JSON.stringify(text)), ...BAD_LITERALS]],
    ['variables', [...BAD_TEXTS.map((text) => JSON.stringify(text)), ...BAD_JSON]],
  ])('cause a field error of addPet for a categoryId in %s, and nothing is stored', async (way, values) => {
    const inVariables = way === 'variables';
    const bad = values.map((value, i) =>
      inVariables
        ? `bad${i}: addPet(input: $v${i}) { id }`
        : `bad${i}: addPet(input: { name: "x", categoryId: ${value} }) { id }`,
    );
    const declared = inVariables ? `(${values.map((_, i) => `$v${i}: NewPet!`).join(' ')})` : '';
    const before = await countPets();
    const answer = await gateway.graphql(
      `mutation ${declared} { ${bad.join(' ')} ok: addPet(input: { name: "Bella", categoryId: 1 }) { name } }`,
      {
        key,
        rawVariables: inVariables
          ? `{${values.map((value, i) => `"v${i}":{"name":"x","categoryId":${value}}`).join(',')}}`
          : '{}',
      },
    );
    expectRefused(answer, values.length);
    expect(await countPets()).toBe(before + 1);
  });

  it.each(['null', '[1]', '{"a":1}'])('cause a request error for the variable value %s', async (value) => {
    const { status, text } = await gateway.graphql('query ($id: ID!) { pet(id: $id) { id } }', {
      key,
      rawVariables: `{"id":${value}}`,
    });
    expect(status).toBe(422);
    expect(JSON.parse(text)).not.toHaveProperty('data');
  });

  it('appear shortened in the error message', async () => {
    const { errors } = await gateway.graphql(`{ a: pet(id: "007") { id } b: pet(id: "${'9'.repeat(500)}") { id } }`, {
      key,
    });
    expect(errors?.[0]?.message).toContain('"007"');
    expect(errors?.[1]?.message.length).toBeLessThan(250);
  });

  async function countPets(): Promise<number> {
    const [row] = await gateway.sql<{ count: number }>('SELECT count(*)::int AS count FROM pets');
    return row?.count ?? 0;
  }
});
