import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { MODES, startGateway, type Gateway } from '../support/gateway.js';

const LIST = 'query List($limit: Int!) { pets(limit: $limit) { id name } }';
const BODY = JSON.stringify({ query: LIST, variables: { limit: 5 } });
const JSON_TYPE = { 'Content-Type': 'application/json' };

interface Request {
  readonly path: string;
  readonly init: RequestInit;
}

/** The requests whose responses clients can store. */
const GRAPHQL: readonly (readonly [string, Request])[] = [
  [
    'GET /graphql',
    { path: `/graphql?${new URLSearchParams({ query: LIST, variables: '{"limit":5}' }).toString()}`, init: {} },
  ],
  ['QUERY /graphql', { path: '/graphql', init: { method: 'QUERY', body: BODY, headers: JSON_TYPE } }],
];
const REST: typeof GRAPHQL = [
  ['GET /v1/pets', { path: '/v1/pets?limit=5', init: {} }],
  ['GET /v1/openapi.json', { path: '/v1/openapi.json', init: {} }],
];

describe.each(MODES)('stored responses, %s store', (mode) => {
  let gateway: Gateway;
  let key: string;

  beforeAll(async () => {
    gateway = await startGateway(mode);
    ({ key } = await gateway.createKey({ plan: 'business' }));
    await gateway.graphql('mutation { addPet(input: { name: "Bella", categoryId: 1 }) { id } }', { key });
  });
  afterAll(() => gateway.close());

  async function send({ path, init }: Request, headers: Record<string, string> = {}, as = key) {
    const all = { Authorization: `Bearer ${as}`, ...(init.headers as Record<string, string>), ...headers };
    const response = await gateway.fetch(path, { ...init, headers: all });
    const { status } = response;
    return { status, headers: response.headers, text: await response.text(), etag: response.headers.get('etag') ?? '' };
  }

  describe.each(mode === 'proxy' ? GRAPHQL : [...GRAPHQL, ...REST])('%s', (name, request) => {
    it('has a strong ETag, and must be revalidated', async () => {
      const { status, headers, etag } = await send(request);
      expect([status, headers.get('cache-control')]).toEqual([200, 'private, no-cache']);
      expect(etag).toMatch(/^"[\w-]{27}"$/);
      expect(headers.get('vary')).toBe('Accept, Authorization, Origin');
      expect((await send(request)).etag).toBe(etag);
    });

    it('becomes a 304 without a body for the client that has it', async () => {
      const { etag, headers } = await send(request);
      for (const known of [etag, `W/${etag}`, `"other", ${etag}`, '*']) {
        const again = await send(request, { 'If-None-Match': known });
        expect([again.status, again.text, again.etag]).toEqual([304, '', etag]);
        expect(again.headers.get('content-type')).toBeNull();
        for (const kept of ['cache-control', 'vary']) expect(again.headers.get(kept)).toBe(headers.get(kept));
      }
      for (const other of ['"other"', '"one,*,other"', etag.slice(1, -1)]) {
        expect((await send(request, { 'If-None-Match': other })).status).toBe(200);
      }
    });

    it('is charged like the response that a 304 saves', async () => {
      const { etag } = await send(request);
      const left = async (headers = {}) => Number((await send(request, headers)).headers.get('x-ratelimit-remaining'));
      const cost = name.endsWith('openapi.json') ? 0 : 1;
      const before = await left();
      expect(await left({ 'If-None-Match': etag })).toBe(before - cost);
    });
  });

  it('a response with errors is not what any client has already', async () => {
    const query = `/graphql?${new URLSearchParams({ query: '{ pets(limit: 0) { id } }' }).toString()}`;
    const headers = { Authorization: `Bearer ${key}`, 'If-None-Match': '*' };
    expect((await gateway.fetch(query, { headers })).status).toBe(200);
  });

  it('an addition changes the ETag', async () => {
    const request = GRAPHQL[0]?.[1] as Request;
    const { etag } = await send(request);
    await gateway.graphql('mutation { addPet(input: { name: "Milo", categoryId: 1 }) { id } }', { key });
    const after = await send(request, { 'If-None-Match': etag });
    expect([after.status, after.text.includes('Milo'), after.etag === etag]).toEqual([200, true, false]);
  });

  it('a refused key never learns whether its copy is current', async () => {
    const { etag } = await send(GRAPHQL[0]?.[1] as Request);
    const { status, headers } = await send(GRAPHQL[0]?.[1] as Request, { 'If-None-Match': etag }, 'pets_made_up');
    expect([status, headers.get('etag'), headers.get('cache-control')]).toEqual([401, null, 'private, no-cache']);
  });

  it('every response whose form depends on Accept says so', async () => {
    const bad = new URLSearchParams({ query: '{ dogs }' }).toString();
    const rest = mode === 'proxy' ? [] : ['/v1/pets?limit=0', '/v1/pets/404', '/v1/cats'];
    for (const path of [...rest, `/graphql?${bad}`, '/'])
      for (const headers of [undefined, { Origin: 'http://localhost:3000' }]) {
        const { headers: sent } = await send({ path, init: {} }, headers);
        expect([path, sent.get('vary')]).toEqual([path, expect.stringMatching(/\bAccept(?:,|$)/)]);
      }
    const posts = ['/graphql'].map((path) => send({ path, init: { method: 'POST', headers: JSON_TYPE, body: '{}' } }));
    for (const { headers } of await Promise.all(posts)) expect(headers.get('vary')).toBe('Accept');
    const { headers } = await gateway.graphql('{ pets { id } }', { key });
    expect(headers.get('vary')).toBe('Accept');
  });

  it('each media type has its own ETag', async () => {
    await Promise.all(
      Array.from({ length: 80 }, (_, i) =>
        gateway.graphql(`mutation { addPet(input: { name: "Animal number ${String(i)}", categoryId: 1 }) { id } }`, {
          key,
        }),
      ),
    );
    const query = new URLSearchParams({ query: '{ pets(limit: 80) { id name categoryId } }' }).toString();
    const request = { path: `/graphql?${query}`, init: {} };
    const etags = new Set<string>();
    for (const accept of ['application/json', 'application/graphql-response+json']) {
      etags.add((await send(request, { Accept: accept })).etag);
    }
    expect(etags.size).toBe(2);
  });

  it('a POST has no ETag', async () => {
    const { headers } = await gateway.graphql('{ pets { id } }', { key });
    expect([headers.get('etag'), headers.get('cache-control'), headers.get('accept-query')]).toEqual([
      null,
      null,
      null,
    ]);
  });

  it('a page of another origin may read the ETag', async () => {
    const { headers } = await send(GRAPHQL[0]?.[1] as Request, { Origin: 'http://localhost:3000' });
    expect(headers.get('access-control-expose-headers')).toContain('ETag');
    expect(headers.get('vary')?.split(', ').toSorted()).toEqual(['Accept', 'Authorization', 'Origin']);
  });

  describe('QUERY', () => {
    const sendQuery = (query: string, headers: Record<string, string> = {}) =>
      send(
        { path: '/graphql', init: { method: 'QUERY', body: JSON.stringify({ query }), headers: JSON_TYPE } },
        headers,
      );

    it('is announced in Accept-Query, and allowed to pages of other origins', async () => {
      const { headers } = await send({ path: '/graphql', init: { method: 'PUT' } });
      expect([headers.get('allow'), headers.get('accept-query')]).toEqual([
        'GET, HEAD, POST, QUERY',
        'application/json',
      ]);
      const preflight = await gateway.fetch('/graphql', {
        method: 'OPTIONS',
        headers: { Origin: 'http://localhost:3000', 'Access-Control-Request-Method': 'QUERY' },
      });
      expect(preflight.headers.get('access-control-allow-methods')).toContain('QUERY');
      expect(preflight.headers.get('access-control-allow-headers')).toContain('If-None-Match');
    });

    it('takes a batch of queries, and runs no mutation', async () => {
      const batch = JSON.stringify([{ query: '{ __typename }' }, { query: '{ a: __typename }' }]);
      const { status, text } = await send({
        path: '/graphql',
        init: { method: 'QUERY', body: batch, headers: JSON_TYPE },
      });
      expect([status, JSON.parse(text)]).toEqual([200, [{ data: { __typename: 'Query' } }, { data: { a: 'Query' } }]]);
      const mutation = await sendQuery('mutation { addPet(input: { name: "Ghost", categoryId: 1 }) { id } }');
      expect([mutation.status, mutation.headers.get('allow')]).toEqual([405, 'POST']);
      expect(await gateway.sql(`SELECT id FROM pets WHERE name = 'Ghost'`)).toEqual([]);
    });

    it('needs a JSON Content-Type', async () => {
      const { status } = await sendQuery('{ __typename }', { 'Content-Type': 'text/plain' });
      expect(status).toBe(415);
    });
  });
});
