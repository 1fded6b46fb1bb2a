import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { sendRaw } from '../hostile/raw-http.js';
import { MODES, startGateway, type Gateway } from '../support/gateway.js';

/**
 * One case for every MUST and SHOULD that the September 2026 edition has for servers, by section:
 * https://http-spec.graphql.org/September2026/. `test/http/overload.long.test.ts` covers 503, and
 * `test/hostile/http.test.ts` covers 408. docs/graphql.md has the table of the sections.
 */
type Level = 'MUST' | 'SHOULD' | 'MAY';

interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly type: string | null;
  readonly body: any;
}

const GRAPHQL_RESPONSE = 'application/graphql-response+json';
const TYPENAME = JSON.stringify({ query: '{ __typename }' });
const PARTIAL = JSON.stringify({ query: '{ pets { id } tooMany: pets(limit: 500) { id } }' });
const ADD = 'mutation { addPet(input: { name: "Ghost", categoryId: 1 }) { id } }';

describe.each(MODES)('GraphQL over HTTP, September 2026, %s store', (mode) => {
  let gateway: Gateway;
  let key: string;

  beforeAll(async () => {
    gateway = await startGateway(mode, { MAX_BODY_BYTES: '4096' });
    ({ key } = await gateway.createKey({ plan: 'business' }));
  });
  afterAll(() => gateway.close());

  async function send(init: RequestInit, search = '', accept = GRAPHQL_RESPONSE): Promise<Answer> {
    const headers = { Authorization: `Bearer ${key}`, Accept: accept, ...(init.headers as Record<string, string>) };
    const response = await gateway.fetch(`/graphql${search}`, { ...init, headers });
    const text = await response.text();
    return {
      status: response.status,
      headers: response.headers,
      type: response.headers.get('content-type'),
      body: text === '' ? undefined : JSON.parse(text),
    };
  }

  const post = (body: string, accept?: string, type = 'application/json') =>
    send({ method: 'POST', body, headers: { 'Content-Type': type } }, '', accept);
  const postAs = (authorization: string) =>
    send({
      method: 'POST',
      body: JSON.stringify({ query: '{ pets { id } }' }),
      headers: { 'Content-Type': 'application/json', Authorization: authorization },
    });
  const postQuery = (query: string, rest: object = {}) => post(JSON.stringify({ query, ...rest }));
  const get = (parameters: Record<string, string>) => send({}, `?${new URLSearchParams(parameters).toString()}`);

  /** Expects a response without data. */
  async function expectRefused(answer: Promise<Answer>, status: number): Promise<Answer> {
    const { body, ...rest } = await answer;
    expect(rest.status).toBe(status);
    expect(rest.type).toBe(`${GRAPHQL_RESPONSE}; charset=utf-8`);
    expect(body).not.toHaveProperty('data');
    expect(body.errors).not.toEqual([]);
    return { body, ...rest };
  }

  async function expectTypename(answer: Promise<Answer>): Promise<void> {
    const { status, body } = await answer;
    expect([status, body]).toEqual([200, { data: { __typename: 'Query' } }]);
  }

  const cases: readonly (readonly [section: string, level: Level, rule: string, check: () => Promise<unknown>])[] = [
    ['URL', 'MUST', 'serve the schema at a URL', () => expectTypename(post(TYPENAME))],
    ['URL', 'SHOULD', 'forbid a request with a relevant 4xx', () => expectRefused(postAs('Bearer pets_made_up'), 401)],
    ['Serialization Format', 'MUST', 'support JSON', () => expectTypename(post(TYPENAME, 'application/json'))],
    [
      'Media Types',
      'MUST',
      'assume UTF-8 in Content-Type and Accept',
      async () => {
        const { body, type } = await postQuery('query ($id: ID!) { pet(id: $id) { id } }', {
          variables: { id: 'Žofka' },
        });
        expect(type).toBe(`${GRAPHQL_RESPONSE}; charset=utf-8`);
        expect(body.errors[0].message).toContain('"Žofka"');
      },
    ],
    ['Request', 'MUST', 'accept POST', () => expectTypename(post(TYPENAME))],
    ['Request', 'MAY', 'accept GET', () => expectTypename(get({ query: '{ __typename }' }))],
    [
      'Request',
      'MAY',
      'accept QUERY',
      () => expectTypename(send({ method: 'QUERY', body: TYPENAME, headers: { 'Content-Type': 'application/json' } })),
    ],
    [
      'GET',
      'MUST',
      'read URLSearchParams, with variables and extensions as JSON',
      () =>
        expectTypename(
          get({
            query: 'query A($s: Boolean!) { __typename @skip(if: $s) } query B { b: __typename }',
            operationName: 'A',
            variables: '{"s":false}',
            extensions: '{"a":1}',
          }),
        ),
    ],
    [
      'GET',
      'MUST',
      'treat empty optional parameters as absent',
      () => expectTypename(get({ query: '{ __typename }', operationName: '', variables: '', extensions: '' })),
    ],
    [
      'GET',
      'MUST',
      'treat operationName=null as the name "null"',
      () =>
        expectTypename(get({ query: 'query null { __typename } query B { b: __typename }', operationName: 'null' })),
    ],
    [
      'GET',
      'MUST',
      'not execute mutations',
      async () => {
        await expectRefused(get({ query: ADD }), 405);
        expect(await gateway.sql(`SELECT id FROM pets WHERE name = 'Ghost'`)).toEqual([]);
      },
    ],
    ['POST', 'MUST', 'support application/json in UTF-8', () => expectTypename(post(TYPENAME))],
    [
      'POST',
      'MUST',
      'support a stated charset of UTF-8',
      () => expectTypename(post(TYPENAME, undefined, 'application/json; charset=utf-8')),
    ],
    [
      'POST',
      'SHOULD',
      'refuse a request without a Content-Type',
      () => expectRefused(send({ method: 'POST', body: new TextEncoder().encode(TYPENAME) }), 415),
    ],
    [
      'JSON Encoding',
      'MUST',
      'ignore properties that it does not understand',
      () => expectTypename(postQuery('{ __typename }', { future: { a: [1] }, id: 5 })),
    ],
    [
      'JSON Encoding',
      'MUST',
      'treat null for optional parameters as absent',
      () => expectTypename(postQuery('{ __typename }', { operationName: null, variables: null, extensions: null })),
    ],
    [
      'Response',
      'MUST',
      'return a well-formed GraphQL response to a well-formed request',
      async () => {
        const { body } = await post(PARTIAL);
        expect(Object.keys(body as object).toSorted()).toEqual(['data', 'errors']);
        expect(body.errors[0]).toMatchObject({ message: expect.any(String), path: ['tooMany'] });
      },
    ],
    [
      'Response',
      'MUST',
      'comply with RFC 9110: an ETag is validated',
      async () => {
        const { headers } = await get({ query: '{ __typename }' });
        const etag = headers.get('etag') ?? '';
        const again = await send({ headers: { 'If-None-Match': etag } }, '?query=%7B__typename%7D');
        expect([again.status, again.body]).toEqual([304, undefined]);
      },
    ],
    [
      'Response',
      'MUST',
      'comply with RFC 9110: HEAD returns the headers of GET',
      async () => {
        const search = `?${new URLSearchParams({ query: '{ pets { id } }' }).toString()}`;
        const [get, head] = [await send({}, search), await send({ method: 'HEAD' }, search)];
        expect([head.status, head.body]).toEqual([200, undefined]);
        for (const name of ['content-length', 'content-type', 'etag', 'vary', 'cache-control']) {
          expect(head.headers.get(name)).toBe(get.headers.get(name));
        }
      },
    ],
    [
      'Body',
      'MUST',
      'state the media type, SHOULD state the encoding',
      async () => expect((await post(TYPENAME)).type).toBe(`${GRAPHQL_RESPONSE}; charset=utf-8`),
    ],
    [
      'Body',
      'MUST',
      'support application/graphql-response+json',
      async () => expect((await post(TYPENAME, GRAPHQL_RESPONSE)).type).toContain(GRAPHQL_RESPONSE),
    ],
    [
      'Body',
      'MUST',
      'choose the media type with the highest priority, for refusals too',
      async () => {
        const preferences = [
          [`${GRAPHQL_RESPONSE}, application/json;q=0.9`, GRAPHQL_RESPONSE],
          [`application/json, ${GRAPHQL_RESPONSE};q=0.5`, 'application/json'],
          [`text/html, ${GRAPHQL_RESPONSE};q=0.1`, GRAPHQL_RESPONSE],
        ];
        for (const [accept, type] of preferences) {
          for (const body of [TYPENAME, '{', JSON.stringify({ query: '{ nothing }' })]) {
            expect((await post(body, accept)).type).toBe(`${type}; charset=utf-8`);
          }
        }
      },
    ],
    [
      'Body',
      'MUST',
      'answer 406 if no media type is acceptable, before anything runs',
      async () => {
        expect((await post(JSON.stringify({ query: ADD }), 'text/html')).status).toBe(406);
        expect(await gateway.sql(`SELECT id FROM pets WHERE name = 'Ghost'`)).toEqual([]);
      },
    ],
    [
      'Body',
      'SHOULD',
      'use the same statuses for application/json, with 200 instead of 294',
      async () => {
        const statuses = [];
        for (const body of [TYPENAME, PARTIAL, '{', '{}', '{"query":"{"}', '{"query":"{ nothing }"}']) {
          statuses.push((await post(body, 'application/json')).status);
        }
        expect(statuses).toEqual([200, 200, 400, 422, 400, 422]);
      },
    ],
    [
      'Validation',
      'SHOULD',
      'apply all validation rules',
      async () => {
        const invalid = [
          '{ nothing }',
          '{ pets }',
          '{ pets { id } ...F }',
          'query ($unused: Int) { __typename }',
          '{ pets(limit: "5") { id } }',
          '{ pets(limit: 1) { id } pets(limit: 2) { id } }',
          'fragment A on Pet { ...A } { pets { ...A } }',
          'query A { __typename } query A { __typename }',
          '{ pets @unknown { id } }',
          'query ($n: String) { pets(limit: $n) { id } }',
          'subscription { pets { id } }',
        ];
        for (const query of invalid) await expectRefused(postQuery(query), 422);
      },
    ],
    [
      'Validation',
      'MAY',
      'apply additional rules',
      () =>
        expectRefused(
          postQuery(`{ ${Array.from({ length: 101 }, (_, i) => `a${String(i)}: __typename`).join(' ')} }`),
          422,
        ),
    ],
    [
      'Execution',
      'MUST',
      'follow ExecuteRequest()',
      async () => {
        const { body } = await post(PARTIAL);
        expect(body.data).toEqual({ pets: [], tooMany: null });
      },
    ],
    [
      'Status Codes',
      'MUST',
      'reply with 2xx if data is not null',
      async () => expect(Math.floor((await post(PARTIAL)).status / 100)).toBe(2),
    ],
    ['Status Codes', 'SHOULD', '200 for data without errors', () => expectTypename(post(TYPENAME))],
    [
      'Status Codes',
      'SHOULD',
      '294 for data with errors',
      async () => {
        const { status, type, body } = await post(PARTIAL);
        expect([status, type]).toEqual([294, `${GRAPHQL_RESPONSE}; charset=utf-8`]);
        expect([body.data.pets, body.errors.length]).toEqual([[], 1]);
      },
    ],
    [
      'Status Codes',
      'MUST',
      '4xx without data, for a persisted query too',
      async () => {
        const extensions = { persistedQuery: { version: 1, sha256Hash: '0'.repeat(64) } };
        await expectRefused(post(JSON.stringify({ extensions })), 422);
      },
    ],
    [
      'Status Codes',
      'SHOULD',
      '405 with Allow for a mutation by GET',
      async () => expect((await expectRefused(get({ query: ADD }), 405)).headers.get('allow')).toBe('POST'),
    ],
    [
      'Status Codes',
      'SHOULD',
      '405 with Allow for another method',
      async () => {
        const { headers } = await expectRefused(send({ method: 'PUT', body: TYPENAME }), 405);
        expect(headers.get('allow')).toBe('GET, HEAD, POST, QUERY');
      },
    ],
    [
      'Status Codes',
      'SHOULD',
      '415 for another Content-Type',
      () => expectRefused(post('{ __typename }', undefined, 'application/graphql'), 415),
    ],
    [
      'Status Codes',
      'SHOULD',
      '406 for another Accept',
      async () => expect((await post(TYPENAME, 'image/png')).status).toBe(406),
    ],
    [
      'Status Codes',
      'SHOULD',
      '414 for a URI that is too long, in another media type',
      () => expectRaw(`GET /graphql?query=${'a'.repeat(17_000)} HTTP/1.1\r\nHost: x\r\n\r\n`, 414),
    ],
    [
      'Status Codes',
      'SHOULD',
      '431 for headers that are too large, in another media type',
      () => expectRaw(`GET /graphql HTTP/1.1\r\nHost: x\r\nX: ${'a'.repeat(25_000)}\r\n\r\n`, 431),
    ],
    [
      'Status Codes',
      'SHOULD',
      '413 for a body that is too large',
      () => expectRefused(postQuery('{ __typename }', { variables: { a: 'x'.repeat(5_000) } }), 413),
    ],
    [
      'Status Codes',
      'SHOULD',
      '400 for a body that is not JSON',
      async () => {
        for (const body of ['NONSENSE', '{"query":', '']) await expectRefused(post(body), 400);
      },
    ],
    [
      'Status Codes',
      'SHOULD',
      '422 for a request that is not well formed',
      async () => {
        for (const body of [
          '{"qeury": "{ __typename }"}',
          '{"query": "{ __typename }", "variables": [7]}',
          '{"query": "{ __typename }", "variables": "{}"}',
          '{"query": "{ __typename }", "extensions": 1}',
          '{"query": "{ __typename }", "operationName": 1}',
          '{"query": 1}',
          '"{ __typename }"',
          'null',
          '[]',
        ]) {
          await expectRefused(post(body), 422);
        }
        await expectRefused(get({ query: '{ __typename }', variables: '{' }), 422);
      },
    ],
    ['Status Codes', 'SHOULD', '400 for a document that cannot be parsed', () => expectRefused(postQuery('{'), 400)],
    [
      'Status Codes',
      'SHOULD',
      '422 for a document that is not valid',
      () => expectRefused(postQuery('{ nothing }'), 422),
    ],
    [
      'Status Codes',
      'SHOULD',
      '422 if the operation cannot be determined',
      async () => {
        const query = 'query A { __typename } query B { __typename }';
        await expectRefused(postQuery(query), 422);
        await expectRefused(postQuery(query, { operationName: 'C' }), 422);
      },
    ],
    [
      'Status Codes',
      'SHOULD',
      '422 if the variables cannot be coerced',
      async () => {
        const query = 'query ($n: Int!) { pets(limit: $n) { id } }';
        await expectRefused(postQuery(query), 422);
        await expectRefused(postQuery(query, { variables: { n: 'ten' } }), 422);
        await expectRefused(postQuery(query, { variables: { n: null } }), 422);
      },
    ],
    ['Status Codes', 'SHOULD', '401 without permission', () => expectRefused(postAs('Bearer pets_made_up'), 401)],
  ];

  /** Expects a refusal of what is not yet a GraphQL request. Such a response MUST NOT have GraphQL's media type. */
  async function expectRaw(head: string, expected: number): Promise<void> {
    const { status, text } = await sendRaw(gateway.url, (socket) => socket.write(head));
    expect(status).toBe(expected);
    expect(text).toMatch(/^Content-Type: application\/json; charset=utf-8\r$/m);
  }

  it.each(cases)('%s: %s %s', async (_section, _level, _rule, check) => {
    await check();
  });

  it('has a case for each section in the table of docs/graphql.md', () => {
    const page = readFileSync(new URL('../../docs/graphql.md', import.meta.url), 'utf8');
    const rows = [...page.matchAll(/^\| \[([^\]]+)\]\(https:\/\/http-spec\.graphql\.org\/[^)]+\) +\| +(\d+) /gm)];
    const counts = new Map<string, number>();
    for (const [section] of cases) counts.set(section, (counts.get(section) ?? 0) + 1);
    expect(rows.map(([, section, count]) => [section, Number(count)])).toEqual([...counts]);
  });
});
