import { createHash } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startGateway, MODES, type Gateway } from '../support/gateway.js';

const hashOf = (query: string): string => createHash('sha256').update(query).digest('hex');

interface PersistedRequest {
  readonly query?: string;
  readonly hash: string;
  readonly version?: number;
  readonly variables?: Record<string, unknown>;
  readonly authorization?: string | undefined;
}

describe.each(MODES)('automatic persisted queries, %s store', (mode) => {
  let gateway: Gateway;
  let mine: string;

  beforeAll(async () => {
    gateway = await startGateway(mode);
    mine = `Bearer ${(await gateway.createKey()).key}`;
    await gateway.sql(`INSERT INTO pets (name, category_id) VALUES ('Bella', 10)`);
  });
  afterAll(() => gateway.close());

  async function send(method: string, request: PersistedRequest) {
    const { query, hash, version = 1, variables, authorization = mine } = request;
    const extensions = { persistedQuery: { version, sha256Hash: hash } };
    const headers = { Authorization: authorization, 'Content-Type': 'application/json' };
    const parameters = new URLSearchParams({ extensions: JSON.stringify(extensions), ...(query && { query }) });
    if (variables) parameters.set('variables', JSON.stringify(variables));
    const answer =
      method === 'GET'
        ? await gateway.fetch(`/graphql?${parameters.toString()}`, { headers })
        : await gateway.fetch('/graphql', { method, headers, body: JSON.stringify({ query, variables, extensions }) });
    const body = (await answer.json()) as {
      data?: unknown;
      errors?: { message: string; extensions: { code: string } }[];
    };
    return { status: answer.status, headers: answer.headers, ...body };
  }

  it.each([null, false])('are not meant by a persistedQuery of %s', async (persistedQuery) => {
    const query = `{ pet(id: 1) { name } } # ${persistedQuery}`;
    // The first time, the document is new.
    for (let time = 1; time <= 2; time++) {
      const response = await gateway.fetch('/graphql', {
        method: 'POST',
        headers: { Authorization: mine, 'Content-Type': 'application/json' },
        body: JSON.stringify({ query, extensions: { persistedQuery } }),
      });
      expect([response.status, await response.json()]).toMatchObject([200, { data: { pet: { name: 'Bella' } } }]);
    }
  });

  it.each([
    ['POST', 'POST'],
    ['GET', 'GET'],
    ['GET', 'POST'],
    ['POST', 'GET'],
  ])('are not found, then registered by %s, then found by %s', async (register, ask) => {
    const query = `query ${register}then${ask}($id: ID!) { pet(id: $id) { name } }`;
    const hash = hashOf(query);
    const variables = { id: '1' };
    const miss = await send(ask, { hash, variables });
    expect(miss.errors).toMatchObject([
      { message: 'PersistedQueryNotFound', extensions: { code: 'PERSISTED_QUERY_NOT_FOUND' } },
    ]);
    expect(miss).not.toHaveProperty('data');

    const registered = await send(register, { query, hash, variables });
    expect([registered.status, registered.data]).toEqual([200, { pet: { name: 'Bella' } }]);
    const hit = await send(ask, { hash, variables });
    expect([hit.status, hit.data]).toEqual([200, { pet: { name: 'Bella' } }]);
    expect(Number(hit.headers.get('x-ratelimit-remaining'))).toBe(
      Number(registered.headers.get('x-ratelimit-remaining')) - 1,
    );
  });

  it.each([
    ['true', true],
    ['a text', 'x'],
    ['a number', 1],
    ['a list', []],
    ['an empty object', {}],
    ['a version as text', { version: '1', sha256Hash: 'x' }],
    ['no hash', { version: 1 }],
    ['a hash that is a number', { version: 1, sha256Hash: 5 }],
    ['an empty hash', { version: 1, sha256Hash: '' }],
  ])('refuse a malformed extension, also in a batch: %s', async (name, persistedQuery) => {
    const malformed = { query: '{ __typename }', extensions: { persistedQuery } };
    const add = { query: `mutation { addPet(input: { name: "In a batch with ${name}", categoryId: 1 }) { id } }` };
    for (const body of [malformed, [add, malformed]]) {
      const response = await gateway.fetch('/graphql', {
        method: 'POST',
        headers: { Authorization: mine, 'Content-Type': 'application/json' },
        body: JSON.stringify(body),
      });
      expect([response.status, await response.json()]).toMatchObject([422, { errors: [{}] }]);
    }
    expect(await gateway.sql('SELECT id FROM pets WHERE name = $1', [`In a batch with ${name}`])).toEqual([]);
  });

  it('cost nothing when not found', async () => {
    const before = await send('POST', { query: '{ pets { id } }', hash: hashOf('{ pets { id } }') });
    const miss = await send('POST', { hash: hashOf('never sent') });
    expect(miss.headers.get('x-ratelimit-remaining')).toBe(before.headers.get('x-ratelimit-remaining'));
  });

  it('are refused and not stored if the hash does not match the query', async () => {
    const hash = hashOf('{ __typename }');
    const wrong = await send('POST', { query: '{ pets { id } }', hash });
    expect(wrong.status).toBe(400);
    expect(wrong.errors?.[0]?.extensions.code).toBe('BAD_REQUEST');
    expect(wrong).not.toHaveProperty('data');
    expect((await send('POST', { hash })).errors?.[0]?.message).toBe('PersistedQueryNotFound');
  });

  it('are refused with an unknown version', async () => {
    const answer = await send('POST', { query: '{ __typename }', hash: hashOf('{ __typename }'), version: 2 });
    expect(answer.status).toBe(422);
    expect(answer.errors?.[0]?.extensions.code).toBe('BAD_REQUEST');
  });

  it('run a mutation by POST and refuse it by GET', async () => {
    const query = 'mutation Persisted { addPet(input: { name: "Rex", categoryId: 1 }) { name } }';
    const hash = hashOf(query);
    expect((await send('POST', { query, hash })).data).toEqual({ addPet: { name: 'Rex' } });
    const get = await send('GET', { hash });
    expect([get.status, get.headers.get('allow')]).toEqual([405, 'POST']);
    expect((await send('POST', { hash })).data).toEqual({ addPet: { name: 'Rex' } });
    expect(await gateway.sql(`SELECT name FROM pets WHERE name = 'Rex'`)).toHaveLength(2);
  });

  it('need a valid key, registered or not', async () => {
    const query = '{ pets { name } }';
    await send('POST', { query, hash: hashOf(query) });
    for (const hash of [hashOf(query), hashOf('never sent')]) {
      expect((await send('POST', { hash, authorization: 'Bearer wrong' })).status).toBe(401);
      expect((await send('GET', { hash, authorization: 'Basic x' })).status).toBe(401);
    }
  });

  it('need no key if they ask about the schema only', async () => {
    const query = '{ __schema { queryType { name } } }';
    await send('POST', { query, hash: hashOf(query) });
    for (const method of ['POST', 'GET'])
      expect((await send(method, { hash: hashOf(query), authorization: 'Basic x' })).status).toBe(200);
  });

  it('keep large numbers in variables exact', async () => {
    const query = 'query Large($id: ID!) { pet(id: $id) { name } }';
    await send('POST', { query, hash: hashOf(query), variables: { id: '1' } });
    const extensions = JSON.stringify({ persistedQuery: { version: 1, sha256Hash: hashOf(query) } });
    const answer = await gateway.fetch('/graphql', {
      method: 'POST',
      headers: { Authorization: mine, 'Content-Type': 'application/json' },
      body: `{"extensions":${extensions},"variables":{"id":9223372036854775807}}`,
    });
    expect(await answer.json()).toMatchObject({
      data: { pet: null },
      errors: [{ message: expect.stringContaining('9223372036854775807'), extensions: { code: 'NOT_FOUND' } }],
    });
  });
});
