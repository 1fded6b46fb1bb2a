import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startGateway, STORES, type Gateway } from '../support/gateway.js';

const PETS = '{ pets { id } }';
const TWO = '{ a: pet(id: 1) { id } b: pet(id: 2) { id } }';

describe.each(STORES)('key bans, %s store', (mode) => {
  let gateway: Gateway;

  beforeAll(async () => {
    gateway = await startGateway(mode, { BAN_AFTER: '3', BAN_SECONDS: '100' });
  });
  afterAll(() => gateway.close());

  it('start after more than BAN_AFTER refusals of a key', async () => {
    const key = await createNearlyBanned(gateway);
    await expectCode(gateway, key, 'KEY_BANNED');
    await expectCode(gateway, key, 'KEY_BANNED');
  });

  it('return 429 KEY_BANNED without data, and Retry-After until the end of the ban', async () => {
    const key = await createBanned(gateway);
    const { status, headers, errors, text } = await gateway.graphql(PETS, { key });
    expect(status).toBe(429);
    expect(JSON.parse(text)).not.toHaveProperty('data');
    const wait = Number(headers.get('retry-after'));
    expect(wait).toBeGreaterThan(80);
    expect(wait).toBeLessThanOrEqual(100);
    expect(errors?.map(({ extensions }) => extensions)).toEqual([
      {
        code: 'KEY_BANNED',
        error: { code: 'key_banned', message: errors?.[0]?.message, status: 429 },
        retryAfter: wait,
        requestId: headers.get('x-request-id'),
      },
    ]);
    expect(headers.get('x-ratelimit-limit')).toBe('1');
    expect(headers.get('x-ratelimit-remaining')).toBe('0');
  });

  it.each([
    ['free fields', { query: '{ rateLimit { plan } }' }],
    ['introspection', { query: '{ __schema { queryType { name } } }' }],
    ['a syntax error', { query: '{ pets {' }],
    ['invalid arguments', { query: '{ pets(limit: 0) { id } }' }],
    ['a batch', [{ query: PETS }, { query: '{ __typename }' }]],
    ['a malformed body', 7],
  ])('refuse %s', async (_, body) => {
    const key = await createBanned(gateway);
    const answer = await gateway.fetch('/graphql', {
      method: 'POST',
      headers: { 'Content-Type': 'application/json', Authorization: `Bearer ${key}` },
      body: JSON.stringify(body),
    });
    expect(answer.status).toBe(429);
    expect(answer.headers.has('retry-after')).toBe(true);
    expect(await answer.text()).toContain('KEY_BANNED');
  });

  it('also refuse the key over GET and REST', async () => {
    const headers = { Authorization: `Bearer ${await createBanned(gateway)}` };
    const get = await gateway.fetch('/graphql?query=%7B__typename%7D', { headers });
    expect([get.status, await get.text()]).toEqual([429, expect.stringContaining('KEY_BANNED')]);
    const rest = await gateway.fetch('/v1/pets', { headers });
    expect([rest.status, await rest.json()]).toEqual([429, expect.objectContaining({ code: 'key_banned' })]);
  });

  it('do not affect other keys', async () => {
    await createBanned(gateway);
    const { key } = await gateway.createKey();
    expect((await gateway.graphql(PETS, { key })).status).toBe(200);
  });

  it('do not count operations that are too large', async () => {
    const { key } = await gateway.createKey({ plan: 'enterprise', limits: { perMinute: 1, perDay: 100 } });
    for (let i = 0; i < 6; i++) {
      const { status, errors } = await gateway.graphql(TWO, { key });
      expect([status, errors?.[0]?.extensions.code]).toEqual([400, 'OPERATION_TOO_LARGE']);
    }
    expect((await gateway.graphql(PETS, { key })).status).toBe(200);
  });

  it('do not count refusals by the rateLimit guard', async () => {
    const { key } = await gateway.createKey();
    const many = `{ ${Array.from({ length: 80 }, (_, i) => `a${i}: rateLimit { plan }`).join(' ')} }`;
    expect((await gateway.graphql(many, { key })).errors).toHaveLength(20);
    expect((await gateway.graphql(PETS, { key })).status).toBe(200);
  });

  it('count each refused entry of a batch', async () => {
    const { key } = await gateway.createKey({ plan: 'enterprise', limits: { perMinute: 1, perDay: 100 } });
    await gateway.fetch('/graphql', {
      method: 'POST',
      headers: { 'Content-Type': 'application/json', Authorization: `Bearer ${key}` },
      body: JSON.stringify(Array.from({ length: 5 }, () => ({ query: PETS }))),
    });
    await expectCode(gateway, key, 'KEY_BANNED');
  });
});

describe.each(STORES)('short key bans, %s store', (mode) => {
  let gateway: Gateway;

  beforeAll(async () => {
    gateway = await startGateway(mode, { BAN_AFTER: '3', BAN_SECONDS: '2' });
  });
  afterAll(() => gateway.close());

  it('end after BAN_SECONDS, as Retry-After states', async () => {
    const key = await createNearlyBanned(gateway);
    const banned = await gateway.graphql(PETS, { key });
    expect(banned.errors?.[0]?.extensions.code).toBe('KEY_BANNED');
    const wait = Number(banned.headers.get('retry-after'));
    expect(wait).toBeLessThanOrEqual(2);
    await new Promise((resolve) => setTimeout(resolve, wait * 1_000 + 50));
    const free = await gateway.graphql('{ rateLimit { plan } }', { key });
    expect(free.data).toEqual({ rateLimit: { plan: 'ENTERPRISE' } });
    await expectCode(gateway, key, 'RATE_LIMITED');
  });
});

/** Creates a key with no requests left this minute and one refusal short of a ban. */
async function createNearlyBanned(gateway: Gateway): Promise<string> {
  const { key } = await gateway.createKey({ plan: 'enterprise', limits: { perMinute: 1, perDay: 100 } });
  expect((await gateway.graphql(PETS, { key })).status).toBe(200);
  for (let i = 0; i < 3; i++) await expectCode(gateway, key, 'RATE_LIMITED');
  return key;
}

async function createBanned(gateway: Gateway): Promise<string> {
  const key = await createNearlyBanned(gateway);
  await gateway.graphql(PETS, { key });
  return key;
}

async function expectCode(gateway: Gateway, key: string, code: string): Promise<void> {
  const { status, errors } = await gateway.graphql(PETS, { key });
  expect(status).toBe(429);
  expect(errors?.map(({ extensions }) => extensions.code)).toEqual([code]);
}
