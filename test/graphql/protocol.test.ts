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

  /** Expects the status and a BAD_REQUEST error without data, uncharged. */
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

  it.each(['PUT', 'DELETE', 'PATCH', 'OPTIONS'])('returns 405 with Allow for %s', async (method) => {
    const answer = await expectRefused({ method }, 405);
    expect(answer.headers.get('allow')).toBe('GET, HEAD, POST, QUERY');
  });

  it('responds to HEAD like to GET, without a body', async () => {
    const sendTo = (query: string, method: string) =>
      gateway.fetch(`/graphql?${new URLSearchParams({ query }).toString()}`, {
        method,
        headers: { Authorization: `Bearer ${key}` },
      });
    const get = await sendTo(PETS, 'GET');
    const head = await sendTo(PETS, 'HEAD');
    expect([head.status, await head.text()]).toEqual([200, '']);
    for (const name of ['content-type', 'content-length', 'etag', 'cache-control', 'vary'])
      expect([name, head.headers.get(name)]).toEqual([name, get.headers.get(name)]);
    expect(head.headers.get('x-ratelimit-remaining')).toBe(
      String(Number(get.headers.get('x-ratelimit-remaining')) - 1),
    );
    const mutation = await sendTo('mutation { addPet(input: { name: "Rex", categoryId: 1 }) { id } }', 'HEAD');
    expect([mutation.status, mutation.headers.get('allow')]).toEqual([405, 'POST']);
    expect((await gateway.fetch('/graphql', { method: 'HEAD' })).status).toBe(400);
  });

  it.each([
    'text/plain',
    'application/graphql',
    'application/x-www-form-urlencoded',
    'multipart/form-data; boundary=x',
    'application/json; charset=latin1',
    'application/jsonp',
  ])('returns 415 for the content type %s', async (type) => {
    await expectRefused({ headers: { 'Content-Type': type }, body: JSON.stringify({ query: PETS }) }, 415);
  });

  it('returns 415 for a body that is compressed or has no content type', async () => {
    const body = new TextEncoder().encode(JSON.stringify({ query: PETS }));
    const untyped = await expectRefused({ body }, 415);
    expect(untyped.headers.get('accept')).toBe('application/json');
    const compressed = await expectRefused({ body, headers: { ...JSON_TYPE, 'Content-Encoding': 'gzip' } }, 415);
    expect(compressed.headers.get('accept-encoding')).toBe('identity');
  });

  it.each(['application/json; charset=utf-8', 'Application/JSON', 'application/json;charset="UTF-8"'])(
    'accepts the content type %s',
    async (type) => {
      const answer = await send({ headers: { 'Content-Type': type }, body: JSON.stringify({ query: PETS }) });
      expect([answer.status, await answer.json()]).toEqual([200, { data: { pets: [] } }]);
    },
  );

  it('returns 413 for a body that is too large, with or without Content-Length', async () => {
    const body = JSON.stringify({ query: PETS, variables: { filler: 'x'.repeat(2_048) } });
    await expectRefused({ headers: JSON_TYPE, body }, 413);
    const stream = new Blob([body]).stream();
    await expectRefused({ headers: JSON_TYPE, body: stream, duplex: 'half' }, 413);
  });

  it('accepts a body of exactly the maximum size', async () => {
    const empty = JSON.stringify({ query: PETS, variables: { filler: '' } });
    const body = JSON.stringify({ query: PETS, variables: { filler: 'x'.repeat(2_048 - empty.length) } });
    expect((await send({ headers: JSON_TYPE, body })).status).toBe(200);
    await expectRefused({ headers: JSON_TYPE, body: `${body} ` }, 413);
  });

  it.each(['text/plain', 'image/png', 'text/html', 'application/json;q=0', 'application/json; charset=utf-16'])(
    'returns 406 for Accept: %s before a mutation runs',
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
    ['application/json; charset=utf-8', 'application/json'],
    ['application/json; charset=utf8', 'application/json'],
    ['application/json;Charset="UTF8";q=0.5, text/html', 'application/json'],
    [
      'application/json;q=0.5;charset=UTF-8, application/graphql-response+json; charset="utf-8"',
      'application/graphql-response+json',
    ],
  ])('responds to Accept: %s with %s', async (accept, type) => {
    for (const query of [PETS, '{ pets {']) {
      const answer = await send({ headers: { ...JSON_TYPE, Accept: accept }, body: JSON.stringify({ query }) });
      expect(answer.headers.get('content-type')).toBe(`${type}; charset=utf-8`);
      expect(answer.status).toBe(query === PETS ? 200 : 400);
      await answer.text();
    }
  });

  it.each([
    ['an empty body', ''],
    ['half an object', '{"query": "{ pets { id } }"'],
    ['a large number in malformed JSON', '{"query": 9007199254740993'],
    ['an empty query', '{"query": ""}'],
  ])('returns 400 for %s', async (_, body) => {
    await expectRefused({ headers: JSON_TYPE, body }, 400);
  });

  it.each([
    ['a string', '"{ pets { id } }"'],
    ['null', 'null'],
    ['a number', '7'],
    ['an object without a query', '{}'],
    ['a query that is not a string', '{"query": 5}'],
    ['variables that are a list', '{"query": "{ pets { id } }", "variables": []}'],
    ['variables that are a string', '{"query": "{ pets { id } }", "variables": "{}"}'],
    ['an operationName that is not a string', '{"query": "{ pets { id } }", "operationName": 5}'],
    ['extensions that are a list', '{"query": "{ pets { id } }", "extensions": []}'],
    ['extensions that are a string', '{"query": "{ pets { id } }", "extensions": "x"}'],
  ])('returns 422 for %s', async (_, body) => {
    await expectRefused({ headers: JSON_TYPE, body }, 422);
  });

  it('returns 400 for a body that is not UTF-8', async () => {
    const body = Buffer.concat([Buffer.from('{"query":"{ pets { id } } #'), Buffer.from([0xff]), Buffer.from('"}')]);
    await expectRefused({ headers: JSON_TYPE, body }, 400);
  });

  it.each([
    ['variables', { variables: null }],
    ['operationName', { operationName: null }],
    ['extensions', { extensions: null }],
  ])('treats null for %s as absent', async (_, part) => {
    const answer = await send({ headers: JSON_TYPE, body: JSON.stringify({ query: PETS, ...part }) });
    expect([answer.status, await answer.json()]).toEqual([200, { data: { pets: [] } }]);
  });

  it('runs the operation that operationName selects', async () => {
    const query = 'query A { a: __typename } query B { b: __typename }';
    expect((await gateway.graphql(query, { key, operationName: 'B' })).data).toEqual({ b: 'Query' });
  });

  it.each([
    ['an unknown operationName', 'query A { a: __typename }', 'C'],
    ['no operationName for several operations', 'query A { a: __typename } query B { b: __typename }', undefined],
    ['a document with only fragments', 'fragment F on Query { __typename }', undefined],
  ])('returns 422 without data for %s', async (_, query, operationName) => {
    const { status, errors, text } = await gateway.graphql(query, { key, ...(operationName && { operationName }) });
    expect(status).toBe(422);
    expect(errors).toHaveLength(1);
    expect(errors?.[0]?.extensions.code).not.toBe('INTERNAL_SERVER_ERROR');
    expect(JSON.parse(text)).not.toHaveProperty('data');
  });

  it('returns 422 without data for subscriptions', async () => {
    const { status, errors, text } = await gateway.graphql('subscription { pets { id } }', { key });
    expect(status).toBe(422);
    expect(errors?.[0]?.extensions.code).toMatch(/^(?:BAD_REQUEST|GRAPHQL_VALIDATION_FAILED)$/);
    expect(JSON.parse(text)).not.toHaveProperty('data');
  });

  it('accepts a hundred root fields, fragments expanded, and refuses more', async () => {
    const fields = (count: number) => Array.from({ length: count }, (_, i) => `a${i}: __typename`).join(' ');
    expect((await gateway.graphql(`{ ${fields(100)} }`, { key })).status).toBe(200);
    const plain = await gateway.graphql(`{ ${fields(101)} }`, { key });
    expect([plain.status, plain.errors?.[0]?.extensions.code]).toEqual([422, 'BAD_REQUEST']);
    const spread = await gateway.graphql(`{ ...F } fragment F on Query { ${fields(101)} }`, { key });
    expect([spread.status, spread.errors?.[0]?.extensions.code]).toEqual([422, 'BAD_REQUEST']);
  });

  it('keeps a request id of safe characters and generates one otherwise', async () => {
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
