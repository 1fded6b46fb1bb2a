import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startGateway, STORES, type Gateway } from '../support/gateway.js';
import {
  animalStatements,
  createRestClient,
  expectError,
  expectLimitHeaders,
  type Answer,
  type RestClient,
} from './requests.js';

describe.each(STORES)('looking up an animal over REST, %s store', (mode) => {
  let gateway: Gateway;
  let client: RestClient;

  beforeAll(async () => {
    gateway = await startGateway(mode);
    const { key } = await gateway.createKey();
    client = createRestClient(gateway, key);
    await gateway.sql(`INSERT INTO pets (id, name, category_id, status)
      VALUES (7, 'Žofka "the" 猫', 20, 'pending'), (8, 'Flocke', -3, NULL), (0, 'Zero', 0, 'sold')`);
  });
  afterAll(() => gateway.close());

  it('returns the animal', async () => {
    const { status, headers, body } = await client.get('/v1/pets/7');
    expect(status).toBe(200);
    expect(headers.get('content-type')).toBe('application/json; charset=utf-8');
    expect(body).toEqual({ id: 7, name: 'Žofka "the" 猫', categoryId: 20, status: 'pending' });
  });

  it('omits an absent status', async () => {
    expect((await client.get('/v1/pets/8')).text).toBe('{"id":8,"name":"Flocke","categoryId":-3}');
  });

  it('accepts 0 and a percent-encoded digit as identifiers', async () => {
    expect((await client.get('/v1/pets/0')).body.name).toBe('Zero');
    expect((await client.get('/v1/pets/%37')).body.id).toBe(7);
  });

  it.each(['1', '-7', '9223372036854775807', '-9223372036854775808'])(
    'returns 404 and charges one request for the absent animal %s',
    async (id) => {
      const { key } = await gateway.createKey({ plan: 'free' });
      const answer = await createRestClient(gateway, key).get(`/v1/pets/${id}`);
      expectError(answer, 404, 'not_found', new RegExp(`\\b${id.replace('-', '')}\\b`));
      expectLimitHeaders(answer.headers, { limit: 60, remaining: 59 });
    },
  );

  it.each([
    '007',
    '+7',
    '%2B7',
    '7.0',
    '7e0',
    '1e3',
    '0x7',
    '-0',
    '00',
    '-',
    '7%20',
    '%207',
    '7,8',
    '%22seven%22',
    '%D9%A7',
    'null',
    'true',
    'seven',
    '9223372036854775808',
    '-9223372036854775809',
    '99999999999999999999999',
    '%ZZ',
    '%FF',
    '7%2F8',
    '__proto__',
  ])('refuses the identifier %s, uncharged', async (id) => {
    const { key } = await gateway.createKey({ plan: 'free' });
    gateway.statements.length = 0;
    const answer = await createRestClient(gateway, key).get(`/v1/pets/${id}`);
    expectError(answer, 400, 'invalid_request', /^id must/);
    expectLimitHeaders(answer.headers, { limit: 60, remaining: 60 });
    expect(animalStatements(gateway)).toEqual([]);
  });

  it('refuses query parameters', async () => {
    expectError(await client.get('/v1/pets/7?status=pending'), 400, 'invalid_request', /status/);
    expectError(await client.get('/v1/pets/7?petId=8'), 400, 'invalid_request', /petId/);
  });

  it('responds to HEAD like to GET, without a body, also for absent animals', async () => {
    const head = await client.send('HEAD', '/v1/pets/7');
    expect({ status: head.status, text: head.text }).toEqual({ status: 200, text: '' });
    expectDeprecation(head);
    expect((await client.send('HEAD', '/v1/pets/1')).status).toBe(404);
  });

  describe('sends the deprecation headers', () => {
    it('with an animal', async () => expectDeprecation(await client.get('/v1/pets/7')));
    it('when the animal is absent', async () => expectDeprecation(await client.get('/v1/pets/1')));
    it('when the identifier is invalid', async () => expectDeprecation(await client.get('/v1/pets/seven')));
    it('when the method is not allowed', async () => expectDeprecation(await client.send('DELETE', '/v1/pets/7')));
    it('when the Accept header is refused', async () =>
      expectDeprecation(await client.get('/v1/pets/7', { Accept: 'text/html' })));
    it('when the key is missing', async () => expectDeprecation(await createRestClient(gateway).get('/v1/pets/7')));
    it('when the limit is exceeded', async () => {
      const { key } = await gateway.createKey({ plan: 'enterprise', limits: { perMinute: 1, perDay: 1 } });
      const poor = createRestClient(gateway, key);
      await poor.get('/v1/pets/7');
      const refused = await poor.get('/v1/pets/7');
      expect(refused.status).toBe(429);
      expectDeprecation(refused);
    });
  });

  it('sends no deprecation headers from other endpoints', async () => {
    for (const { headers } of [await client.get('/v1/pets'), await client.post('{}'), await client.get('/v1/cats')]) {
      expect(headers.has('deprecation')).toBe(false);
      expect(headers.has('sunset')).toBe(false);
      expect(headers.has('link')).toBe(false);
    }
  });
});

/** `Deprecation` is a structured-field date (RFC 9745) and not later than `Sunset` (RFC 8594). */
function expectDeprecation({ headers }: Answer): void {
  expect(headers.get('sunset')).toBe('Thu, 05 Dec 2030 00:00:00 GMT');
  const [, deprecatedSince] = /^@(\d+)$/.exec(headers.get('deprecation') ?? '') ?? [];
  expect(Number(deprecatedSince) * 1_000).toBeLessThanOrEqual(Date.parse('2030-12-05T00:00:00Z'));
  expect(Number(deprecatedSince) * 1_000).toBeGreaterThan(Date.parse('2020-01-01T00:00:00Z'));
  expect(headers.get('link')).toBe('</v1/pets>; rel="successor-version"');
}
