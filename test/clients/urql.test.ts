import { cacheExchange, Client, fetchExchange } from '@urql/core';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { MODES, startGateway, type Gateway } from '../support/gateway.js';
import { recordFetch } from './recorded-fetch.js';

const LOOK_UP = 'query LookUp($id: ID!) { pet(id: $id) { id name status } }';

describe.each(MODES)('urql, %s store', (mode) => {
  let gateway: Gateway;
  let key: string;
  let recorded: ReturnType<typeof recordFetch>;

  beforeAll(async () => {
    gateway = await startGateway(mode);
    ({ key } = await gateway.createKey());
    await gateway.sql(`INSERT INTO pets (name, category_id, status) VALUES ('Bella', 10, 'available')`);
    await gateway.sql(`INSERT INTO pets (id, name, category_id) VALUES (9007199254740993, 'Deep', 1)`);
  });
  afterAll(() => gateway.close());
  beforeEach(() => {
    recorded = recordFetch();
  });

  const connect = (withKey?: string): Client =>
    new Client({
      url: `${gateway.url}/graphql`,
      exchanges: [cacheExchange, fetchExchange],
      fetch: recorded.fetch,
      fetchOptions: { headers: withKey === undefined ? {} : { authorization: `Bearer ${withKey}` } },
    });

  it('sends a short query by GET, with the Authorization header as its only CSRF protection', async () => {
    const { data, error } = await connect(key).query(LOOK_UP, { id: '9007199254740993' });
    expect(error).toBeUndefined();
    expect(data).toMatchObject({ pet: { id: '9007199254740993', name: 'Deep', status: null } });
    expect(recorded.sent).toMatchObject([{ method: 'GET', status: 200 }]);
    expect(recorded.sent[0]?.url.searchParams.get('operationName')).toBe('LookUp');
  });

  it('sends a query that is too long for a URL by POST', async () => {
    const fields = Array.from({ length: 50 }, (_, index) => `animal_number_${index}: pet(id: 1) { id name status }`);
    const { data } = await connect(key).query(`{ ${fields.join(' ')} }`, {});
    expect(data.animal_number_49).toMatchObject({ name: 'Bella' });
    expect(recorded.sent).toMatchObject([{ method: 'POST', status: 200 }]);
  });

  it('adds an animal', async () => {
    const mutation = 'mutation ($input: NewPet!) { addPet(input: $input) { name categoryId status } }';
    const input = { name: 'Rex', categoryId: '7', status: 'SOLD' };
    const { data, error } = await connect(key).mutation(mutation, { input });
    expect(error).toBeUndefined();
    expect(data).toMatchObject({ addPet: input });
    expect(recorded.sent).toMatchObject([{ method: 'POST' }]);
  });

  it('reads the data and the error of a partly failed operation', async () => {
    const { data, error } = await connect(key).query('{ pets(limit: 1) { name } missing: pet(id: "404") { id } }', {});
    expect(data).toMatchObject({ pets: [{ name: 'Bella' }], missing: null });
    expect(error?.graphQLErrors).toMatchObject([
      { path: ['missing'], extensions: { code: 'NOT_FOUND', error: { code: 'not_found', status: 404 } } },
    ]);
  });

  it('reads the errors of an invalid document', async () => {
    const { data, error } = await connect(key).query('{ animals { id } }', {});
    expect(data).toBeUndefined();
    expect(error?.networkError).toBeUndefined();
    expect(error?.graphQLErrors[0]?.extensions.code).toBe('GRAPHQL_VALIDATION_FAILED');
    expect((error?.response as Response).status).toBe(422);
  });

  it('reports a 401', async () => {
    const { error } = await connect('pets_unknown').query(LOOK_UP, { id: '1' });
    expect(error?.graphQLErrors[0]?.extensions.code).toBe('UNAUTHENTICATED');
    expect((error?.response as Response).status).toBe(401);
  });

  it('reports a 429 and its Retry-After', async () => {
    const { key: small } = await gateway.createKey({ plan: 'enterprise', limits: { perMinute: 1, perDay: 100 } });
    const client = connect(small);
    await client.query(LOOK_UP, { id: '1' });
    const { error } = await client.query('{ pets { id } }', {});
    expect(error?.graphQLErrors[0]?.extensions.code).toBe('RATE_LIMITED');
    const response = error?.response as Response;
    expect(response.status).toBe(429);
    expect(Number(response.headers.get('retry-after'))).toBeGreaterThan(0);
  });

  it('gets a 400 for a GET without a key, which needs no CORS preflight', async () => {
    const { error } = await connect().query('{ __typename }', {});
    expect(error?.graphQLErrors[0]?.extensions.code).toBe('BAD_REQUEST');
    expect(recorded.sent).toMatchObject([{ method: 'GET', status: 400 }]);
  });
});
