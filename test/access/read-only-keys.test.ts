import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { KeyRecord } from '../../src/store/postgres-key-store.js';
import { createRestClient, expectError, expectLimitHeaders } from '../rest/requests.js';
import { startGateway, STORES, type Gateway } from '../support/gateway.js';

const INPUT = 'input: { name: "Rex", categoryId: 1 }';
const REX = '{"name":"Rex","categoryId":1}';
const MESSAGE = 'The API key is read-only: it may not add animals.';

describe.each(STORES)('read-only keys, %s store', (mode) => {
  let gateway: Gateway;
  let key: string;

  beforeAll(async () => {
    gateway = await startGateway(mode);
  });
  afterAll(() => gateway.close());

  const createKey = async () => (({ key } = await gateway.createKey({ plan: 'free', readOnly: true })), key);
  const rowsOf = async (table: string) => (await gateway.sql(`SELECT 1 FROM ${table}`)).length;

  it('get an uncharged error for each addition, and siblings keep their data', async () => {
    await createKey();
    const query = `mutation ($name: String!) {
      a: addPet(${INPUT}) { id } __typename b: addPet(input: { name: $name, categoryId: 1 }) { id }
    }`;
    const answer = await gateway.graphql(query, {
      key,
      variables: { name: ' ' },
      headers: { 'Idempotency-Key': 'once' },
    });
    expect([answer.status, answer.data]).toEqual([200, { a: null, __typename: 'Mutation', b: null }]);
    expect(answer.errors).toMatchObject(
      ['a', 'b'].map((path) => ({
        path: [path],
        message: MESSAGE,
        extensions: { code: 'FORBIDDEN', error: { code: 'forbidden', message: MESSAGE, status: 403 } },
      })),
    );
    expectLimitHeaders(answer.headers, { limit: 60, remaining: 60 });
    expect([await rowsOf('pets'), await rowsOf('idempotent_adds')]).toEqual([0, 0]);
  });

  it('get 403 over REST, uncharged, whatever the body is', async () => {
    const client = createRestClient(gateway, await createKey());
    for (const body of [REX, '{"id":1}', 'no JSON']) {
      const answer = await client.post(body, { 'Idempotency-Key': 'once' });
      expectError(answer, 403, 'forbidden', /^The API key is read-only: it may not add animals\.$/);
      expectLimitHeaders(answer.headers, { limit: 60, remaining: 60 });
    }
    expect([await rowsOf('pets'), await rowsOf('idempotent_adds')]).toEqual([0, 0]);
  });

  it('may read, and other keys may still add with the same document', async () => {
    await createKey();
    expect(await gateway.graphql('{ pets { id } }', { key })).toMatchObject({ status: 200, data: { pets: [] } });
    expect((await createRestClient(gateway, key).get('/v1/pets')).status).toBe(200);
    const { key: other } = await gateway.createKey();
    const add = `mutation { addPet(${INPUT}) { name } }`;
    expect((await gateway.graphql(add, { key })).data).toEqual({ addPet: null });
    expect((await gateway.graphql(add, { key: other })).data).toEqual({ addPet: { name: 'Rex' } });
  });

  it('are charged in a batch for their reads alone', async () => {
    await createKey();
    const batch = [{ query: `mutation { addPet(${INPUT}) { id } }` }, { query: '{ pets(limit: 1) { name } }' }];
    const response = await gateway.fetch('/graphql', {
      method: 'POST',
      headers: { Authorization: `Bearer ${key}`, 'Content-Type': 'application/json' },
      body: JSON.stringify(batch),
    });
    expect(await response.json()).toMatchObject([
      { data: { addPet: null }, errors: [{ extensions: { code: 'FORBIDDEN' } }] },
      { data: { pets: [{ name: 'Rex' }] } },
    ]);
    expectLimitHeaders(response.headers, { limit: 60, remaining: 59 });
  });

  it('stay read-only when they are changed or get a new secret', async () => {
    const { id } = await gateway.createKey({ readOnly: true });
    const before = (await gateway.keys.find(id)) as KeyRecord;
    await gateway.keys.update(before, { ...before, plan: 'free', limits: { perMinute: 60, perDay: 1_000 } }, 'test');
    const rotated = await gateway.keys.rotate(before, 60_000, 'test');
    expect(rotated).toMatchObject({ plan: 'free', readOnly: true });
    expect((await createRestClient(gateway, rotated?.key).post(REX)).status).toBe(403);
  });
});
