import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startGateway, MODES, type Gateway } from '../support/gateway.js';

const DEPRECATIONS = [
  {
    coordinate: 'Query.pet',
    reason: 'Will be removed on 5 December 2030. Use pets with the status filter.',
    sunset: '2030-12-05',
  },
];

describe.each(MODES)('deprecations in responses, %s store', (mode) => {
  let gateway: Gateway;
  let key: string;

  beforeAll(async () => {
    gateway = await startGateway(mode);
    ({ key } = await gateway.createKey());
    await gateway.sql(`INSERT INTO pets (name, category_id) VALUES ('Bella', 10)`);
  });
  afterAll(() => gateway.close());

  it.each([
    ['a field', '{ pet(id: 1) { name } }'],
    ['aliases, reported once', '{ a: pet(id: 1) { name } b: pet(id: 1) { name } }'],
    ['a fragment', '{ ...F } fragment F on Query { pet(id: 1) { name } }'],
    ['a fragment in a fragment', '{ ...F } fragment F on Query { ...G } fragment G on Query { pet(id: 1) { name } }'],
    ['an inline fragment', '{ ... on Query { pet(id: 1) { name } } }'],
  ])('report a deprecated field used through %s', async (_, query) => {
    for (let i = 0; i < 2; i++) {
      const { extensions } = await gateway.graphql(query, { key });
      expect(extensions).toEqual({ deprecations: DEPRECATIONS });
    }
  });

  it('are present in a response with errors', async () => {
    const { errors, extensions } = await gateway.graphql('{ pet(id: 404) { name } }', { key });
    expect(errors).toHaveLength(1);
    expect(extensions).toEqual({ deprecations: DEPRECATIONS });
  });

  it.each([
    '{ pets { name } }',
    '{ rateLimit { plan } }',
    '{ pet: pets { name } }',
    'mutation { addPet(input: { name: "Rex", categoryId: 1 }) { name } }',
  ])('are absent for %s', async (query) => {
    const { text } = await gateway.graphql(query, { key });
    expect(JSON.parse(text)).not.toHaveProperty('extensions');
  });

  it('cover only the operation that ran', async () => {
    const query = 'query New { pets { name } } query Old { pet(id: 1) { name } }';
    expect((await gateway.graphql(query, { key, operationName: 'New' })).extensions).toBeUndefined();
    expect((await gateway.graphql(query, { key, operationName: 'Old' })).extensions).toEqual({
      deprecations: DEPRECATIONS,
    });
  });

  it('appear in the right entry of a batch', async () => {
    const answer = await gateway.fetch('/graphql', {
      method: 'POST',
      headers: { 'Content-Type': 'application/json', Authorization: `Bearer ${key}` },
      body: JSON.stringify([{ query: '{ pets { name } }' }, { query: '{ pet(id: 1) { name } }' }]),
    });
    const [first, second] = (await answer.json()) as [object, object];
    expect(first).not.toHaveProperty('extensions');
    expect(second).toHaveProperty('extensions', { deprecations: DEPRECATIONS });
  });
});
