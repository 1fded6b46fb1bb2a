import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startGateway, MODES, type Gateway } from '../support/gateway.js';

describe.each(MODES)('GraphQL over GET, %s store', (mode) => {
  let gateway: Gateway;
  let authorization: { Authorization: string };

  beforeAll(async () => {
    gateway = await startGateway(mode);
    const { key } = await gateway.createKey();
    authorization = { Authorization: `Bearer ${key}` };
    await gateway.sql(`INSERT INTO pets (name, category_id) VALUES ('Bella', 10), ('Milo', 20)`);
  });
  afterAll(() => gateway.close());

  function get(parameters: Record<string, string>, headers: Record<string, string> = authorization): Promise<Response> {
    return gateway.fetch(`/graphql?${new URLSearchParams(parameters).toString()}`, { headers });
  }

  it('needs no CSRF header for a query with an Authorization header', async () => {
    const answer = await get({ query: '{ pets { name } }' });
    expect([answer.status, await answer.json()]).toEqual([
      200,
      { data: { pets: [{ name: 'Bella' }, { name: 'Milo' }] } },
    ]);
    expect(answer.headers.get('content-type')).toBe('application/json; charset=utf-8');
  });

  it('charges a query like a POST', async () => {
    const query = '{ a: pet(id: 1) { id } b: pet(id: 2) { id } }';
    const first = await get({ query });
    const second = await get({ query });
    const left = [first, second].map(({ headers }) => Number(headers.get('x-ratelimit-remaining')));
    expect(left[1]).toBe((left[0] ?? 0) - 2);
  });

  it('reads variables and operationName from the query string', async () => {
    const query = 'query A { __typename } query B($id: ID!) { pet(id: $id) { name } }';
    const answer = await get({ query, variables: '{"id":2}', operationName: 'B' });
    expect(await answer.json()).toMatchObject({ data: { pet: { name: 'Milo' } } });
  });

  it('treats empty parameters as absent', async () => {
    const answer = await get({
      query: '{ pets(limit: 1) { name } }',
      variables: '',
      operationName: '',
      extensions: '',
    });
    expect([answer.status, await answer.json()]).toEqual([200, { data: { pets: [{ name: 'Bella' }] } }]);
  });

  it('returns 400 for a request that needs no CORS preflight', async () => {
    const answer = await get({ query: '{ __typename }' }, {});
    expect(answer.status).toBe(400);
    expect(await answer.json()).toMatchObject({ errors: [{ extensions: { code: 'BAD_REQUEST' } }] });
  });

  it.each([
    ['Apollo-Require-Preflight', 'true'],
    ['X-Apollo-Operation-Name', 'Any'],
    ['Content-Type', 'application/json'],
  ])('serves a query without a key if it has the header %s', async (name, value) => {
    const answer = await get({ query: '{ __typename }' }, { [name]: value });
    expect([answer.status, await answer.json()]).toEqual([200, { data: { __typename: 'Query' } }]);
  });

  it('does not accept a content type that needs no CORS preflight as a CSRF header', async () => {
    const answer = await get({ query: '{ __typename }' }, { 'Content-Type': 'text/plain' });
    expect([400, 415]).toContain(answer.status);
    expect(await answer.json()).not.toHaveProperty('data');
  });

  it('returns 405 with Allow for a mutation and does not run it', async () => {
    const answer = await get({ query: 'mutation { addPet(input: { name: "Ghost", categoryId: 1 }) { id } }' });
    expect(answer.status).toBe(405);
    expect(answer.headers.get('allow')).toBe('POST');
    const body = (await answer.json()) as object;
    expect(body).toMatchObject({ errors: [{ extensions: { code: 'BAD_REQUEST' } }] });
    expect(body).not.toHaveProperty('data');
    expect(await gateway.sql(`SELECT id FROM pets WHERE name = 'Ghost'`)).toEqual([]);
  });

  it('refuses a mutation selected by operationName, and serves a query from the same document', async () => {
    const query = 'query Q { __typename } mutation M { addPet(input: { name: "Ghost", categoryId: 1 }) { id } }';
    expect((await get({ query, operationName: 'M' })).status).toBe(405);
    expect((await get({ query, operationName: 'Q' })).status).toBe(200);
  });

  it('returns 400 for an empty query', async () => {
    expect((await get({ query: '' })).status).toBe(400);
  });

  it.each<[string, Record<string, string>]>([
    ['no query', {}],
    ['variables that are not JSON', { query: '{ __typename }', variables: '{' }],
    ['variables that are a list', { query: '{ __typename }', variables: '[]' }],
    ['extensions that are not JSON', { query: '{ __typename }', extensions: 'x' }],
  ])('returns 422 for %s', async (_, parameters) => {
    const answer = await get(parameters);
    expect(answer.status).toBe(422);
    const body = (await answer.json()) as object;
    expect(body).toMatchObject({ errors: [{ extensions: { code: 'BAD_REQUEST' } }] });
    expect(body).not.toHaveProperty('data');
  });

  it('returns 422 for a repeated parameter', async () => {
    const answer = await gateway.fetch('/graphql?query=%7B__typename%7D&query=%7Bpets%7Bid%7D%7D', {
      headers: authorization,
    });
    expect(answer.status).toBe(422);
  });

  it('returns 401 without a valid key', async () => {
    for (const [name, value] of [
      ['Authorization', 'Bearer wrong'],
      ['Apollo-Require-Preflight', 'true'],
    ] as const) {
      const answer = await get({ query: '{ pets { id } }' }, { [name]: value });
      expect(answer.status).toBe(401);
      expect(await answer.json()).not.toHaveProperty('data');
    }
  });
});
