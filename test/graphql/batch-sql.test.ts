import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { petStatements, startGateway, STORES, type Gateway } from '../support/gateway.js';

describe.each(STORES)('SQL statements per HTTP request, %s store', (mode) => {
  let gateway: Gateway;
  let key: string;

  beforeAll(async () => {
    gateway = await startGateway(mode);
    ({ key } = await gateway.createKey());
    await gateway.sql(`INSERT INTO pets (name, category_id) SELECT 'pet ' || n, n FROM generate_series(1, 50) AS n`);
  });
  beforeEach(async () => {
    await gateway.graphql('{ __typename }', { key });
    gateway.statements.length = 0;
  });
  afterAll(() => gateway.close());

  async function send(batch: readonly object[]): Promise<{ data: Record<string, { name: string } | null> }[]> {
    const answer = await gateway.fetch('/graphql', {
      method: 'POST',
      headers: { 'Content-Type': 'application/json', Authorization: `Bearer ${key}` },
      body: JSON.stringify(batch),
    });
    return (await answer.json()) as { data: Record<string, { name: string } | null> }[];
  }

  it('sends one statement for all lookups of a batch with aliases', async () => {
    const batch = Array.from({ length: 5 }, (_, i) => ({
      query: `query ($id: ID!) { a: pet(id: ${i * 3 + 1}) { name } b: pet(id: ${i * 3 + 2}) { name } c: pet(id: $id) { name } }`,
      variables: { id: i * 3 + 3 },
    }));
    const answers = await send(batch);
    expect(answers.flatMap(({ data }) => Object.values(data).map((pet) => pet?.name))).toEqual(
      Array.from({ length: 15 }, (_, i) => `pet ${i + 1}`),
    );
    expect(petStatements(gateway)).toHaveLength(1);
  });

  it('sends one statement when entries differ in form and some fail', async () => {
    const answers = await send([
      { query: '{ pets {' },
      { query: '{ pet(id: 1) { name } }' },
      { query: '{ ...F } fragment F on Query { pet(id: 2) { name } bad: pet(id: "x") { name } }' },
      { query: '{ dogs }' },
      {
        query: 'query ($v: Boolean!) { pet(id: 3) @include(if: $v) { name } rateLimit { plan } }',
        variables: { v: true },
      },
      { query: '{ __typename absent: pet(id: 404) { name } }' },
    ]);
    expect([answers[1], answers[2], answers[4]].map((answer) => answer?.data.pet?.name)).toEqual([
      'pet 1',
      'pet 2',
      'pet 3',
    ]);
    expect(petStatements(gateway)).toHaveLength(1);
  });

  it('sends one statement for equal lookups and for a hundred aliases', async () => {
    await send([{ query: '{ a: pet(id: 1) { name } b: pet(id: 1) { name } }' }, { query: '{ pet(id: 1) { name } }' }]);
    expect(petStatements(gateway)).toHaveLength(1);
    gateway.statements.length = 0;
    const aliases = Array.from({ length: 100 }, (_, i) => `a${i}: pet(id: ${i}) { name }`).join(' ');
    await gateway.graphql(`{ ${aliases} }`, { key });
    expect(petStatements(gateway)).toHaveLength(1);
  });

  it('shares one statement between equal entries and charges each of them', async () => {
    const before = await gateway.graphql('{ __typename }', { key });
    const entry = { query: '{ pet(id: 1) { name } }' };
    await send([entry, entry, entry]);
    const after = await gateway.graphql('{ __typename }', { key });
    const [had, has] = [before, after].map(({ headers }) => Number(headers.get('x-ratelimit-remaining')));
    expect(has).toBe((had ?? 0) - 3);
    expect(petStatements(gateway)).toHaveLength(1);
  });

  it('sends one statement for equal lists', async () => {
    const list = { query: '{ a: pets { name } b: pets(limit: 20) { id } }' };
    await send([list, list, { query: '{ pets(limit: 20, status: null) { id } }' }]);
    expect(petStatements(gateway)).toHaveLength(1);
  });

  it('sends no statement for free or refused operations', async () => {
    await send([
      { query: '{ __schema { queryType { name } } }' },
      { query: '{ rateLimit { plan } }' },
      { query: '{ pet(id: "x") { id } pets(limit: 0) { id } }' },
      { query: '{ pets {' },
      { query: 'mutation { addPet(input: { name: "", categoryId: 1 }) { id } }' },
    ]);
    expect(petStatements(gateway)).toEqual([]);
  });

  it('shares no result with the next HTTP request', async () => {
    const before = await gateway.graphql('{ pet(id: 50) { name } }', { key });
    await gateway.sql(`UPDATE pets SET name = 'renamed' WHERE id = 50`);
    const after = await gateway.graphql('{ pet(id: 50) { name } }', { key });
    expect([before.data.pet.name, after.data.pet.name]).toEqual(['pet 50', 'renamed']);
    expect(petStatements(gateway)).toHaveLength(2);
  });
});
