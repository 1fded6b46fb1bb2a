import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startGateway, STORES, type Gateway } from '../support/gateway.js';
import { animalStatements, createRestClient, expectError, expectLimitHeaders, type RestClient } from './requests.js';

describe.each(STORES)('listing animals over REST, %s store', (mode) => {
  let gateway: Gateway;
  let client: RestClient;

  beforeAll(async () => {
    gateway = await startGateway(mode);
    const { key } = await gateway.createKey();
    client = createRestClient(gateway, key);
    await gateway.sql(`INSERT INTO pets (id, name, category_id, status)
      SELECT n, 'animal ' || n, n * 10, (ARRAY['available', 'pending', 'sold', NULL])[n % 4 + 1]
      FROM generate_series(150, 1, -1) AS n`);
  });
  afterAll(() => gateway.close());

  it('returns twenty animals by default, lowest id first, as a JSON array', async () => {
    const { status, headers, body } = await client.get('/v1/pets');
    expect(status).toBe(200);
    expect(headers.get('content-type')).toBe('application/json; charset=utf-8');
    expect(idsOf(body)).toEqual(range(1, 20));
  });

  it('returns every field of an animal and omits an absent status', async () => {
    const { body } = await client.get('/v1/pets?limit=4');
    expect(body).toEqual([
      { id: 1, name: 'animal 1', categoryId: 10, status: 'pending' },
      { id: 2, name: 'animal 2', categoryId: 20, status: 'sold' },
      { id: 3, name: 'animal 3', categoryId: 30 },
      { id: 4, name: 'animal 4', categoryId: 40, status: 'available' },
    ]);
  });

  it.each([1, 7, 99, 100])('returns as many animals as limit=%i requests', async (limit) => {
    const { body } = await client.get(`/v1/pets?limit=${limit}`);
    expect(idsOf(body)).toEqual(range(1, limit));
  });

  it.each([
    ['available', 4],
    ['pending', 1],
    ['sold', 2],
  ])('filters by the status %s and keeps the order', async (status, first) => {
    const { body } = await client.get(`/v1/pets?status=${status}&limit=10`);
    expect(idsOf(body)).toEqual(range(0, 9).map((n) => first + 4 * n));
    expect(new Set((body as { status: string }[]).map((pet) => pet.status))).toEqual(new Set([status]));
  });

  it('decodes percent-encoded parameters', async () => {
    const { status, body } = await client.get('/v1/pets?%6cimit=%32&status=%73old');
    expect(status).toBe(200);
    expect(idsOf(body)).toEqual([2, 6]);
  });

  it('links each full page to the next, until every animal was in one', async () => {
    for (const [search, expected] of [
      ['limit=50', range(1, 150)],
      ['limit=7&status=sold', range(1, 150).filter((n) => n % 4 === 2)],
      ['limit=100&after=-9223372036854775808', range(1, 150)],
      ['', range(1, 150)],
    ] as const) {
      const walked: number[] = [];
      let path: string | undefined = `/v1/pets?${search}`;
      while (path !== undefined) {
        const { headers, body } = await client.get(path);
        walked.push(...idsOf(body));
        const link = headers.get('link');
        const { limit, filter } = partsOf(path);
        path = idsOf(body).length < limit ? undefined : `/v1/pets?limit=${limit}${filter}&after=${walked.at(-1)}`;
        expect(link).toBe(path === undefined ? null : `<${path}>; rel="next"`);
      }
      expect(walked).toEqual(expected);
    }
  });

  it('keeps the link in the response to HEAD, in a 304 and with large ids', async () => {
    const deep = '9007199254740993';
    await gateway.sql(`INSERT INTO pets (id, name, category_id) VALUES (${deep}, 'Deep', 1)`);
    const path = '/v1/pets?limit=1&after=150';
    const link = `</v1/pets?limit=1&after=${deep}>; rel="next"`;
    const { headers } = await client.get(path);
    expect(headers.get('link')).toBe(link);
    expect((await client.send('HEAD', path)).headers.get('link')).toBe(link);
    const known = await client.send('GET', path, { headers: { 'If-None-Match': headers.get('etag') as string } });
    expect([known.status, known.headers.get('link')]).toEqual([304, link]);
    const { text } = await client.get(`/v1/pets?after=${deep}`);
    expect(text).toBe('[]');
    await gateway.sql(`DELETE FROM pets WHERE id = ${deep}`);
  });

  it.each([
    ['limit=0', /limit.* got 0/],
    ['limit=101', /limit.* got 101/],
    ['limit=-1', /limit.*-1/],
    ['limit=9007199254740993', /limit.* got "9007199254740993"/],
    ['limit=9223372036854775808', /limit/],
    ['limit=', /limit.* got ""/],
    ['limit=%20', /limit/],
    ['limit=+5', /limit/],
    ['limit=%2B5', /limit.*\+5/],
    ['limit=1e2', /limit.*1e2/],
    ['limit=1e1', /limit.*1e1/],
    ['limit=5.0', /limit.*5\.0/],
    ['limit=0x5', /limit.*0x5/],
    ['limit=007', /limit.*007/],
    ['limit=5%20', /limit/],
    ['limit=%D9%A5', /limit/],
    ['limit=five', /limit.*five/],
    ['limit=%22five%22', /limit/],
    ['limit=null', /limit.*null/],
    ['limit=5;status=sold', /limit/],
    ['limit=5&limit=5', /limit.*twice/],
    ['limit=5&%6Cimit=6', /limit.*twice/],
    ['limit[]=5', /limit\[\]/],
    ['status=', /status.* got ""/],
    ['status=AVAILABLE', /status.*available.*AVAILABLE/],
    ['status=Sold', /status.*Sold/],
    ['status=null', /status.*null/],
    ['status=sold%00', /status/],
    ['status=sold,pending', /status/],
    ['status=sold&status=sold', /status.*twice/],
    ['status=%FF', /status/],
    ['after=', /after.* got ""/],
    ['after=007', /after must be a whole number.* got "007"/],
    ['after=%2B1', /after.*\+1/],
    ['after=1e3', /after.*1e3/],
    ['after=0x5', /after.*0x5/],
    ['after=1.0', /after.*1\.0/],
    ['after=-0', /after.*-0/],
    ['after=null', /after.*null/],
    ['after=true', /after.*true/],
    ['after=%221%22', /after/],
    ['after=9223372036854775808', /after.*9223372036854775808/],
    ['after=-9223372036854775809', /after/],
    ['after=1&after=1', /after.*twice/],
    ['After=1', /After/],
    ['offset=10', /offset/],
    ['Limit=10', /Limit/],
    ['=', /""/],
    ['__proto__=1', /__proto__/],
    ['constructor=1', /constructor/],
    ['toString', /toString/],
  ])('refuses ?%s and says why', async (search, reason) => {
    gateway.statements.length = 0;
    expectError(await client.get(`/v1/pets?${search}`), 400, 'invalid_request', reason);
    expect(animalStatements(gateway)).toEqual([]);
  });

  it('names all invalid parameters at once', async () => {
    const { body } = await client.get('/v1/pets?limit=500&status=gone&page=2');
    expect(body.message).toMatch(/limit.*status.*page/);
  });

  it('charges nothing for an invalid parameter and one request for a list', async () => {
    const { key } = await gateway.createKey({ plan: 'free' });
    const free = createRestClient(gateway, key);
    expectLimitHeaders((await free.get('/v1/pets?limit=1e2')).headers, { limit: 60, remaining: 60 });
    expectLimitHeaders((await free.get('/v1/pets?limit=100')).headers, { limit: 60, remaining: 59 });
  });

  it('responds to HEAD like to GET, without a body', async () => {
    const get = await client.get('/v1/pets?limit=2');
    const head = await client.send('HEAD', '/v1/pets?limit=2');
    expect(head.status).toBe(200);
    expect(head.text).toBe('');
    expect(head.headers.get('content-type')).toBe(get.headers.get('content-type'));
    expect(head.headers.get('content-length')).toBe(String(Buffer.byteLength(get.text)));
    expect(Number(head.headers.get('x-ratelimit-remaining'))).toBe(
      Number(get.headers.get('x-ratelimit-remaining')) - 1,
    );
  });

  it('returns an empty array when no animal matches', async () => {
    await gateway.sql(`UPDATE pets SET status = 'available' WHERE status = 'sold'`);
    const { status, text } = await client.get('/v1/pets?status=sold');
    expect({ status, text }).toEqual({ status: 200, text: '[]' });
  });
});

function idsOf(pets: unknown): number[] {
  return (pets as { id: number }[]).map(({ id }) => id);
}

function range(first: number, last: number): number[] {
  return Array.from({ length: last - first + 1 }, (_, i) => first + i);
}

function partsOf(path: string): { readonly limit: number; readonly filter: string } {
  return { limit: Number(/limit=(\d+)/.exec(path)?.[1] ?? 20), filter: /&status=\w+/.exec(path)?.[0] ?? '' };
}
