import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startGateway, MODES, type Gateway } from '../support/gateway.js';

interface Entry {
  readonly data?: any;
  readonly errors?: readonly { readonly message: string; readonly extensions: Record<string, unknown> }[];
}

describe.each(MODES)('batches of operations, %s store', (mode) => {
  let gateway: Gateway;
  let key: string;

  beforeAll(async () => {
    gateway = await startGateway(mode, { MAX_BATCH: '5' });
    ({ key } = await gateway.createKey());
    await gateway.sql(`INSERT INTO pets (name, category_id) VALUES ('Bella', 10), ('Milo', 20), ('Flocke', 30)`);
  });
  afterAll(() => gateway.close());

  async function send(body: unknown, headers: Record<string, string> = {}, sentKey = key) {
    const answer = await gateway.fetch('/graphql', {
      method: 'POST',
      headers: { 'Content-Type': 'application/json', Authorization: `Bearer ${sentKey}`, ...headers },
      body: typeof body === 'string' ? body : JSON.stringify(body),
    });
    return { status: answer.status, headers: answer.headers, entries: (await answer.json()) as Entry[] };
  }

  async function remaining(): Promise<string | null> {
    return (await gateway.graphql('{ __typename }', { key })).headers.get('x-ratelimit-remaining');
  }

  it('return results in the order of the entries', async () => {
    const { status, headers, entries } = await send([
      { query: '{ __typename }' },
      { query: 'query ($id: ID!) { pet(id: $id) { name } }', variables: { id: 2 } },
      { query: '{ pets { name } }' },
      { query: 'query A { a: __typename } query B { b: __typename }', operationName: 'B' },
      { query: '{ pet(id: 1) { name } }' },
    ]);
    expect(status).toBe(200);
    expect(headers.get('content-type')).toBe('application/json; charset=utf-8');
    expect(entries.map(({ data }) => data as unknown)).toEqual([
      { __typename: 'Query' },
      { pet: { name: 'Milo' } },
      { pets: [{ name: 'Bella' }, { name: 'Milo' }, { name: 'Flocke' }] },
      { b: 'Query' },
      { pet: { name: 'Bella' } },
    ]);
  });

  it('return a list of one for one operation', async () => {
    const { entries } = await send([{ query: '{ pet(id: 1) { name } }' }]);
    expect(entries).toMatchObject([{ data: { pet: { name: 'Bella' } } }]);
  });

  it('keep JSON numbers in variables exact', async () => {
    await gateway.sql(`INSERT INTO pets (id, name, category_id) VALUES (9007199254740993, 'Deep', 1)`);
    const query = 'query ($id: ID!) { pet(id: $id) { name } }';
    const { entries } = await send(
      `[{"query":"${query}","variables":{"id":9007199254740993}},{"query":"${query}","variables":{"id":9007199254740992}}]`,
    );
    expect(entries).toMatchObject([{ data: { pet: { name: 'Deep' } } }, { data: { pet: null } }]);
  });

  it('get 422 when empty and 400 when too long, uncharged', async () => {
    const before = await remaining();
    for (const count of [0, 6, 50]) {
      const { status, entries } = await send(Array.from({ length: count }, () => ({ query: '{ pets { id } }' })));
      expect(status).toBe(count === 0 ? 422 : 400);
      expect(entries).toMatchObject({ errors: [{ extensions: { code: 'BAD_REQUEST' } }] });
      expect(entries).not.toHaveProperty('data');
    }
    expect(await remaining()).toBe(before);
  });

  it.each([
    ['a number', 7],
    ['null', null],
    ['a list', []],
    ['a string', '{ pets { id } }'],
    ['an object without a query', {}],
    ['a query that is not a string', { query: 5 }],
    ['variables that are a list', { query: '{ pets { id } }', variables: [] }],
    ['extensions that are a string', { query: '{ pets { id } }', extensions: 'x' }],
    ['an operationName that is not a string', { query: '{ pets { id } }', operationName: 1 }],
  ])('are refused as a whole before anything runs, uncharged, if an entry is %s', async (_, malformed) => {
    const before = await remaining();
    const add = { query: 'mutation { addPet(input: { name: "Ghost", categoryId: 1 }) { id } }' };
    const { status, entries } = await send([add, malformed, add]);
    expect(status).toBe(422);
    expect(entries).toMatchObject({ errors: [{ extensions: { code: 'BAD_REQUEST' } }] });
    expect(await remaining()).toBe(before);
    expect(await gateway.sql(`SELECT id FROM pets WHERE name = 'Ghost'`)).toEqual([]);
  });

  it('are refused for their Accept header before a mutation runs', async () => {
    const before = await remaining();
    const add = { query: 'mutation { addPet(input: { name: "Ghost", categoryId: 1 }) { id } }' };
    const { status } = await send([add, add], { Accept: 'text/plain' });
    expect(status).toBe(406);
    expect(await remaining()).toBe(before);
    expect(await gateway.sql(`SELECT id FROM pets WHERE name = 'Ghost'`)).toEqual([]);
  });

  it('cost the sum of their entries', async () => {
    const before = Number(await remaining());
    const { headers } = await send([
      { query: '{ a: pet(id: 1) { id } b: pet(id: 2) { id } c: pet(id: 1) { name } }' },
      { query: '{ pet(id: 3) { id } }' },
      { query: '{ pets { id } }' },
      { query: '{ rateLimit { plan } }' },
      { query: '{ pets {' },
    ]);
    expect(headers.get('x-ratelimit-remaining')).toBe(String(before - 4));
    expect(await remaining()).toBe(String(before - 4));
  });

  it('give every error the same request id', async () => {
    const { headers, entries } = await send([{ query: '{ pet(id: 404) { id } }' }, { query: '{ pets {' }]);
    const requestId = headers.get('x-request-id');
    const ids = entries.flatMap(({ errors }) => errors ?? []).map(({ extensions }) => extensions.requestId);
    expect(ids).toEqual([requestId, requestId]);
  });

  it('return each error only in its own entry', async () => {
    const { status, entries } = await send([
      { query: '{ pet(id: 404) { name } }' },
      { query: '{ pet(id: "x") { name } }' },
      { query: '{ pet(id: 1) { name } }' },
    ]);
    expect(status).toBe(200);
    expect(entries.map(({ errors }) => errors?.map(({ extensions }) => extensions.code))).toEqual([
      ['NOT_FOUND'],
      ['BAD_USER_INPUT'],
      undefined,
    ]);
    expect(entries[2]?.data).toEqual({ pet: { name: 'Bella' } });
  });

  it('run mutations and queries together', async () => {
    const add = { query: 'mutation { addPet(input: { name: "Rex", categoryId: 1 }) { name } }' };
    const { entries } = await send([add, { query: '{ pet(id: 3) { name } }' }, add]);
    expect(entries.map(({ data }) => data as unknown)).toEqual([
      { addPet: { name: 'Rex' } },
      { pet: { name: 'Flocke' } },
      { addPet: { name: 'Rex' } },
    ]);
    expect(await gateway.sql(`SELECT id FROM pets WHERE name = 'Rex'`)).toHaveLength(2);
  });
});
