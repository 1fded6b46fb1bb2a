import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { MODES, petStatements, startGateway, type Gateway } from '../support/gateway.js';

const DEEP = ['9007199254740992', '9007199254740993', '9223372036854775807'];

describe.each(MODES)('pets after an id, %s store', (mode) => {
  let gateway: Gateway;
  let key: string;

  beforeAll(async () => {
    gateway = await startGateway(mode);
    ({ key } = await gateway.createKey());
    await gateway.sql(`INSERT INTO pets (name, category_id, status)
      SELECT 'animal ' || n, n, (ARRAY['available', 'pending', 'sold', NULL])[n % 4 + 1] FROM generate_series(1, 40) AS n`);
    await gateway.sql(
      `INSERT INTO pets (id, name, category_id, status) SELECT id, 'deep', 1, 'sold' FROM unnest($1::bigint[]) AS id`,
      [DEEP],
    );
  });
  afterAll(() => gateway.close());

  const idsOf = (pets: readonly { readonly id: string }[]): string[] => pets.map(({ id }) => id);

  it.each([undefined, 'SOLD'])('go on behind each page until none is left, status %s', async (status) => {
    const query = 'query ($after: ID, $s: PetStatus) { pets(limit: 7, after: $after, status: $s) { id } }';
    const walked: string[] = [];
    for (let page: string[] | undefined; page?.length !== 0; walked.push(...page)) {
      // The first time, the variable is absent.
      const { data, errors } = await gateway.graphql(query, { key, variables: { after: walked.at(-1), s: status } });
      expect(errors).toBeUndefined();
      page = idsOf(data.pets as []);
    }
    const all = Array.from({ length: 40 }, (_, n) => n + 1).filter((n) => status === undefined || n % 4 === 2);
    expect(walked).toEqual([...all.map(String), ...DEEP]);
  });

  it.each([
    ['an integer', '9007199254740992', '{}'],
    ['a string', '"9007199254740992"', '{}'],
    ['a string variable', '$v', '{"v":"9007199254740992"}'],
    ['a JSON number in a variable', '$v', '{"v":9007199254740992}'],
  ])('are exact if the id is %s', async (_, argument, rawVariables) => {
    const head = argument === '$v' ? 'query ($v: ID)' : '';
    const answer = await gateway.graphql(`${head} { pets(after: ${argument}) { id } }`, { key, rawVariables });
    expect(idsOf(answer.data.pets as [])).toEqual(DEEP.slice(1));
  });

  it('begin with the lowest id if it is null, omitted or the least int64', async () => {
    const query = `query ($v: ID) {
      a: pets(limit: 2, after: null) { id } b: pets(limit: 2, after: $v) { id }
      c: pets(limit: 2, after: "-9223372036854775808") { id } d: pets(limit: 2, after: 9223372036854775807) { id }
    }`;
    for (const variables of [{}, { v: null }]) {
      const { data } = await gateway.graphql(query, { key, variables });
      const first = [{ id: '1' }, { id: '2' }];
      expect(data).toEqual({ a: first, b: first, c: first, d: [] });
    }
  });

  it('fail alone if the id is not an int64, uncharged', async () => {
    const bad = ['"007"', '"+1"', '1e3', '1.0', '"0x5"', 'true', '"null"', '9223372036854775808', '""'];
    const fields = bad.map((id, index) => `bad${index}: pets(after: ${id}) { id }`).join(' ');
    const answer = await gateway.graphql(`{ ok: pets(limit: 1, after: 2) { id } ${fields} }`, { key });
    expect(answer.data).toMatchObject({ ok: [{ id: '3' }], bad0: null });
    expect(answer.errors).toHaveLength(bad.length);
    for (const { message, extensions } of answer.errors ?? []) {
      expect(message).toMatch(/^after must be a whole number such as 42 in plain digits, .*, got "/);
      expect(extensions).toMatchObject({ code: 'BAD_USER_INPUT', error: { code: 'invalid_request', status: 400 } });
    }
  });

  it('share a statement or an upstream request if they are equal', async () => {
    const store = gateway.upstream ?? gateway;
    await gateway.graphql('{ pets(limit: 1) { id } }', { key });
    store.statements.length = 0;
    const query = '{ a: pets(after: 4) { id } b: pets(limit: 20, after: "4") { name } c: pets(after: 5) { id } }';
    const { data } = await gateway.graphql(query, { key });
    expect([data.a[0], data.b[0], data.c[0]]).toEqual([{ id: '5' }, { name: 'animal 5' }, { id: '6' }]);
    expect(petStatements(store)).toHaveLength(2);
  });
});
