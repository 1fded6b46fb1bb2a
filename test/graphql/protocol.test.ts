import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startGateway, MODES, type Gateway } from '../support/gateway.js';

const PETS = '{ pets { id } }';
const JSON_TYPE = { 'Content-Type': 'application/json' };

describe.each(MODES)('GraphQL over HTTP, %s store', (mode) => {
  let gateway: Gateway;
  let key: string;

  beforeAll(async () => {
    gateway = await startGateway(mode, { MAX_BODY_BYTES: '2048' });
    ({ key } = await gateway.createKey({ plan: 'enterprise', limits: { perMinute: 1_000, perDay: 10_000 } }));
    await gateway.graphql(PETS, { key });
  });
  afterAll(() => gateway.close());

  function send(init: RequestInit): Promise<Response> {
    return gateway.fetch('/graphql', {
      method: 'POST',
      ...init,
      headers: { Authorization: `Bearer ${key}`, ...(init.headers as Record<string, string>) },
    });
  }

  /** A refusal by the transport: its status, a BAD_REQUEST error without data, and nothing charged. */
  async function expectRefused(init: RequestInit, status: number): Promise<Response> {
    const before = (await gateway.graphql('{ __typename }', { key })).headers.get('x-ratelimit-remaining');
    const answer = await send(init);
    expect(answer.status).toBe(status);
    const requestId = answer.headers.get('x-request-id');
    const body = (await answer.json()) as object;
    expect(body).toMatchObject({ errors: [{ extensions: { code: 'BAD_REQUEST', requestId } }] });
    expect(body).not.toHaveProperty('data');
    expect(answer.headers.get('x-ratelimit-remaining')).toBe(before);
    return answer;
  }

  it.each(['PUT', 'DELETE', 'PATCH', 'OPTIONS'])(
    'refuses %s with 405 and names the methods that there are',
    async (method) => {
      const answer = await expectRefused({ method }, 405);
      expect(answer.headers.get('allow')).toBe('GET, POST');
    },
  );

  it('refuses HEAD with 405', async () => {
    const answer = await send({ method: 'HEAD' });
    expect(answer.status).toBe(405);
    expect(answer.headers.get('allow')).toBe('GET, POST');
  });

  it.each([
    'text/plain',
    'application/graphql',
    'application/x-www-form-urlencoded',
    'multipart/form-data; boundary=x',
    'application/json; charset=latin1',
    'application/jsonp',
  ])('refuses a body of type %s with 415', async (type) => {
    await expectRefused({ headers: { 'Content-Type': type }, body: JSON.stringify({ query: PETS }) }, 415);
  });

  it('refuses a body without a type, and a compressed one, with 415', async () => {
    const body = new TextEncoder().encode(JSON.stringify({ query: PETS }));
    await expectRefused({ body }, 415);
    await expectRefused({ body, headers: { ...JSON_TYPE, 'Content-Encoding': 'gzip' } }, 415);
  });

  it.each(['application/json; charset=utf-8', 'Application/JSON', 'application/json;charset="UTF-8"'])(
    'takes a body of type %s',
    async (type) => {
      const answer = await send({ headers: { 'Content-Type': type }, body: JSON.stringify({ query: PETS }) });
      expect([answer.status, await answer.json()]).toEqual([200, { data: { pets: [] } }]);
    },
  );

  it('refuses a larger body than allowed with 413, whether or not it announces its length', async () => {
    const body = JSON.stringify({ query: PETS, variables: { filler: 'x'.repeat(2_048) } });
    await expectRefused({ headers: JSON_TYPE, body }, 413);
    const stream = new Blob([body]).stream();
    await expectRefused({ headers: JSON_TYPE, body: stream, duplex: 'half' }, 413);
  });

  it('takes a body of exactly the size allowed', async () => {
    const empty = JSON.stringify({ query: PETS, variables: { filler: '' } });
    const body = JSON.stringify({ query: PETS, variables: { filler: 'x'.repeat(2_048 - empty.length) } });
    expect((await send({ headers: JSON_TYPE, body })).status).toBe(200);
    await expectRefused({ headers: JSON_TYPE, body: `${body} ` }, 413);
  });

  it.each(['text/plain', 'image/png', 'text/html', 'application/json;q=0'])(
    'refuses Accept: %s with 406 before a mutation runs',
    async (accept) => {
      const query = `mutation { addPet(input: { name: "Unacceptable", categoryId: 1 }) { id } }`;
      await expectRefused({ headers: { ...JSON_TYPE, Accept: accept }, body: JSON.stringify({ query }) }, 406);
      expect(await gateway.sql(`SELECT id FROM pets WHERE name = 'Unacceptable'`)).toEqual([]);
    },
  );

  it.each([
    ['application/json', 'application/json'],
    ['application/graphql-response+json', 'application/graphql-response+json'],
    ['application/graphql-response+json, application/json;q=0.9', 'application/graphql-response+json'],
    ['application/json, application/graphql-response+json;q=0.5', 'application/json'],
    ['*/*', 'application/json'],
    ['application/*', 'application/json'],
  ])('answers Accept: %s as %s', async (accept, type) => {
    for (const query of [PETS, '{ pets {']) {
      const answer = await send({ headers: { ...JSON_TYPE, Accept: accept }, body: JSON.stringify({ query }) });
      expect(answer.headers.get('content-type')).toBe(`${type}; charset=utf-8`);
      await answer.text();
    }
  });

  it.each([
    ['nothing', ''],
    ['half an object', '{"query": "{ pets { id } }"'],
    ['a text', '"{ pets { id } }"'],
    ['null', 'null'],
    ['a number', '7'],
    ['an object without a query', '{}'],
    ['an empty query', '{"query": ""}'],
    ['a query that is no text', '{"query": 5}'],
    ['variables that are a list', '{"query": "{ pets { id } }", "variables": []}'],
    ['variables that are a text', '{"query": "{ pets { id } }", "variables": "{}"}'],
    ['an operationName that is no text', '{"query": "{ pets { id } }", "operationName": 5}'],
    ['extensions that are a list', '{"query": "{ pets { id } }", "extensions": []}'],
    ['extensions that are a text', '{"query": "{ pets { id } }", "extensions": "x"}'],
    ['a large number in malformed JSON', '{"query": 9007199254740993'],
  ])('refuses %s as a body with 400', async (_, body) => {
    await expectRefused({ headers: JSON_TYPE, body }, 400);
  });

  it('refuses bytes that are not UTF-8 with 400', async () => {
    const body = Buffer.concat([Buffer.from('{"query":"{ pets { id } } #'), Buffer.from([0xff]), Buffer.from('"}')]);
    await expectRefused({ headers: JSON_TYPE, body }, 400);
  });

  it.each([
    ['variables', { variables: null }],
    ['operationName', { operationName: null }],
    ['extensions', { extensions: null }],
  ])('takes null for %s as absent', async (_, part) => {
    const answer = await send({ headers: JSON_TYPE, body: JSON.stringify({ query: PETS, ...part }) });
    expect([answer.status, await answer.json()]).toEqual([200, { data: { pets: [] } }]);
  });

  it('runs the operation that operationName names', async () => {
    const query = 'query A { a: __typename } query B { b: __typename }';
    expect((await gateway.graphql(query, { key, operationName: 'B' })).data).toEqual({ b: 'Query' });
  });

  it.each([
    ['an unknown operationName', 'query A { a: __typename }', 'C'],
    ['no operationName for several operations', 'query A { a: __typename } query B { b: __typename }', undefined],
    ['a document of fragments alone', 'fragment F on Query { __typename }', undefined],
  ])('refuses %s with 400 without data', async (_, query, operationName) => {
    const { status, errors, text } = await gateway.graphql(query, { key, ...(operationName && { operationName }) });
    expect(status).toBe(400);
    expect(errors).toHaveLength(1);
    expect(errors?.[0]?.extensions.code).not.toBe('INTERNAL_SERVER_ERROR');
    expect(JSON.parse(text)).not.toHaveProperty('data');
  });

  it('refuses subscriptions with 400 without data', async () => {
    const { status, errors, text } = await gateway.graphql('subscription { pets { id } }', { key });
    expect(status).toBe(400);
    expect(errors?.[0]?.extensions.code).toMatch(/^(?:BAD_REQUEST|GRAPHQL_VALIDATION_FAILED)$/);
    expect(JSON.parse(text)).not.toHaveProperty('data');
  });

  it('refuses more than a hundred root fields, fragments expanded, and takes a hundred', async () => {
    const fields = (count: number) => Array.from({ length: count }, (_, i) => `a${i}: __typename`).join(' ');
    expect((await gateway.graphql(`{ ${fields(100)} }`, { key })).status).toBe(200);
    const plain = await gateway.graphql(`{ ${fields(101)} }`, { key });
    expect([plain.status, plain.errors?.[0]?.extensions.code]).toEqual([400, 'BAD_REQUEST']);
    const spread = await gateway.graphql(`{ ...F } fragment F on Query { ${fields(101)} }`, { key });
    expect([spread.status, spread.errors?.[0]?.extensions.code]).toEqual([400, 'BAD_REQUEST']);
  });

  it('takes over a request id of harmless characters, and makes one otherwise', async () => {
    const adopted = await gateway.graphql('{ __typename }', { headers: { 'X-Request-Id': 'abc-123_X.y:z' } });
    expect(adopted.headers.get('x-request-id')).toBe('abc-123_X.y:z');
    for (const sent of ['has space', '<script>', 'x'.repeat(129), 'ü']) {
      const { headers } = await gateway.graphql('{ __typename }', { headers: { 'X-Request-Id': sent } });
      expect(headers.get('x-request-id')).toMatch(
        /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/,
      );
    }
  });
});
