import { buildClientSchema, getIntrospectionQuery, type IntrospectionQuery } from 'graphql';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { sendRaw } from '../hostile/raw-http.js';
import { startGateway, MODES, type Gateway } from '../support/gateway.js';

const PETS = '{ pets { id } }';
const MISSING = 'Bearer realm="animal-store"';
const INVALID = 'Bearer realm="animal-store", error="invalid_token"';

describe.each(MODES)('GraphQL keys in development, %s store', (mode) => {
  let gateway: Gateway;
  let key: string;

  beforeAll(async () => {
    gateway = await startGateway(mode);
    ({ key } = await gateway.createKey());
  });
  afterAll(() => gateway.close());

  it.each(['Bearer', 'bearer', 'BEARER', 'bEaReR'])('are accepted with the scheme %s', async (scheme) => {
    const { status } = await gateway.graphql(PETS, { headers: { Authorization: `${scheme} ${key}` } });
    expect(status).toBe(200);
  });

  it.each([
    ['no Authorization', undefined, MISSING],
    ['another scheme', 'Basic dXNlcjpwYXNz', MISSING],
    ['a scheme without a key', 'Bearer', MISSING],
    ['an unknown key', 'Bearer wrong', INVALID],
    ['an unknown key with a lower-case scheme', 'bearer wrong', INVALID],
    ['a key that contains a space', 'Bearer wrong key', INVALID],
  ])('are required: %s gets 401 with the right challenge', async (_, authorization, challenge) => {
    const headers: Record<string, string> = authorization === undefined ? {} : { Authorization: authorization };
    const answer = await gateway.graphql(PETS, { headers });
    expect(answer.status).toBe(401);
    expect(answer.headers.get('www-authenticate')).toBe(challenge);
    expect(answer.errors?.map(({ extensions }) => extensions.code)).toEqual(['UNAUTHENTICATED']);
    expect(JSON.parse(answer.text)).not.toHaveProperty('data');
  });

  it('get 401 when altered, revoked or expired', async () => {
    const revoked = await gateway.createKey();
    await gateway.keys.revoke(revoked.id, 'test');
    const expired = await gateway.createKey({ expiresAt: new Date(Date.now() - 1_000) });
    const changed = key.slice(0, -1) + (key.endsWith('a') ? 'b' : 'a');
    for (const sent of [revoked.key, expired.key, changed, key.toUpperCase(), `${key}x`]) {
      const { status, headers } = await gateway.graphql(PETS, { key: sent });
      expect([status, headers.get('www-authenticate')]).toEqual([401, INVALID]);
    }
  });

  it('are not needed to load the schema', async () => {
    const { status, data } = await gateway.graphql(getIntrospectionQuery());
    expect(status).toBe(200);
    const schema = buildClientSchema(data as IntrospectionQuery);
    expect(Object.keys(schema.getQueryType()?.getFields() ?? {}).sort()).toEqual(['pet', 'pets', 'rateLimit']);
    expect(schema.getQueryType()?.getFields().pet?.deprecationReason).toContain('5 December 2030');
  });

  it.each([
    '{ __typename }',
    '{ __type(name: "Pet") { name } }',
    '{ ...F } fragment F on Query { __schema { queryType { name } } }',
  ])('are not needed for %s', async (query) => {
    expect((await gateway.graphql(query)).status).toBe(200);
  });

  it.each([
    '{ __typename pets { id } }',
    '{ __typename rateLimit { plan } }',
    '{ __typename ...F } fragment F on Query { pets { id } }',
    '{ __typename ... on Query { a: pet(id: "x") { id } } }',
    '{ __schema { queryType { name } } pets @include(if: false) { id } }',
    'mutation { addPet(input: { name: "Ghost", categoryId: 1 }) { id } }',
  ])('are needed for %s', async (query) => {
    expect((await gateway.graphql(query)).status).toBe(401);
  });

  it('are needed only if the selected operation needs one', async () => {
    const query = 'query Schema { __typename } query Data { pets { id } }';
    expect((await gateway.graphql(query, { operationName: 'Schema' })).status).toBe(200);
    expect((await gateway.graphql(query, { operationName: 'Data' })).status).toBe(401);
  });

  it('get 401 when invalid, even for introspection', async () => {
    for (const query of [PETS, '{ __typename }', getIntrospectionQuery(), '{ pets {']) {
      const { status, headers } = await gateway.graphql(query, { key: 'wrong' });
      expect([status, headers.get('www-authenticate')]).toEqual([401, INVALID]);
    }
  });
});

describe.each(MODES)('GraphQL keys without introspection, %s store', (mode) => {
  describe.each([
    ['NODE_ENV', 'production'],
    ['INTROSPECTION', 'false'],
  ])('%s=%s', (name, value) => {
    let gateway: Gateway;

    beforeAll(async () => {
      gateway = await startGateway(mode, { [name]: value });
    });
    afterAll(() => gateway.close());

    it.each(['{ __typename }', getIntrospectionQuery(), '{ pets {', '', '{ dogs }'])(
      'are required before the document is parsed: %s',
      async (query) => {
        const { status, headers, errors } = await gateway.graphql(query);
        expect([status, headers.get('www-authenticate')]).toEqual([401, MISSING]);
        expect(errors?.map(({ extensions }) => extensions.code)).toEqual(['UNAUTHENTICATED']);
      },
    );

    it('are required before the body is parsed', async () => {
      const headers = { 'Content-Type': 'application/json' };
      expect((await gateway.fetch('/graphql', { method: 'POST', headers, body: '{' })).status).toBe(401);
    });

    it('are required before the body has arrived', async () => {
      const head = 'POST /graphql HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n';
      const { status, text } = await sendRaw(gateway.url, (socket) => {
        // A body that never ends.
        socket.write(`${head}Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n`);
      });
      expect(status).toBe(401);
      expect(text).toContain('UNAUTHENTICATED');
    });

    it('give access to data but not to the schema or suggestions', async () => {
      const { key } = await gateway.createKey();
      const { data } = await gateway.graphql('{ __typename pets { id } }', { key });
      expect(data).toEqual({ __typename: 'Query', pets: [] });
      expect((await gateway.graphql('{ __schema { types { name } } }', { key })).status).toBe(422);
      const misspelt = await gateway.graphql('{ petz { id } }', { key });
      expect(misspelt.status).toBe(422);
      expect(misspelt.text).not.toContain('Did you mean');
    });

    const UNFIT = 'The document does not fit the schema at this place.';
    it.each([
      ['{ pets { nam } }', UNFIT],
      ['{ pet { id } }', UNFIT],
      ['{ pets }', UNFIT],
      ['mutation { addPet(input: { nam: "Rex" }) { id } }', UNFIT],
      ['mutation ($input: NewPet!) { addPet(input: $input) { id } }', 'The value of the variable $input does not fit.'],
      ['{ pets(status: "x") { id: __typename } }', UNFIT],
      ['query ($input: ID!) { pets(status: $input) { __typename } }', UNFIT],
      ['{ pets(limit: 1) { ...F } } fragment F on Query { __typename }', UNFIT],
      [
        'query ($no: Boolean = true) { pets @skip(if: $no) { __typename } }',
        'The condition of @skip must not be null.',
      ],
    ])('hide the names of fields and types that the client did not write: %s', async (query, message) => {
      const { key } = await gateway.createKey();
      const { status, text, errors } = await gateway.graphql(query, {
        key,
        variables: { input: { nam: 'Rex' }, no: null },
      });
      expect([status, errors?.[0]?.message]).toEqual([422, message]);
      expect(text).not.toMatch(/name|categoryId|"id"|Did you mean|PetStatus|NewPet|"Pet"|Boolean/);
    });
  });
});

describe.each(MODES)('GraphQL keys in production with INTROSPECTION=true, %s store', (mode) => {
  let gateway: Gateway;

  beforeAll(async () => {
    gateway = await startGateway(mode, { NODE_ENV: 'production', INTROSPECTION: 'true' });
  });
  afterAll(() => gateway.close());

  it('are needed for the schema too, and before a document is parsed', async () => {
    const schema = '{ __schema { queryType { name } } }';
    const { key } = await gateway.createKey();
    for (const query of [schema, PETS, '{']) expect((await gateway.graphql(query)).status).toBe(401);
    const { status, data } = await gateway.graphql(schema, { key });
    expect([status, data]).toEqual([200, { __schema: { queryType: { name: 'Query' } } }]);
  });
});
