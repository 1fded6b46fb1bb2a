import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { digestApiKey } from '../../src/access/api-key.js';
import { scrape, sum } from '../observability/scrape.js';
import { startGateway, STORES, type Gateway } from '../support/gateway.js';
import { createRestClient, expectError, expectLimitHeaders, type RestClient } from './requests.js';

const DAY_MS = 86_400_000;
const today = (): string => new Date().toISOString().slice(0, 10);
const NAMED = (name: string) => ({ 'apollographql-client-name': name });

describe.each(STORES)('/v1/key, %s store', (mode) => {
  let gateway: Gateway;

  beforeAll(async () => {
    gateway = await startGateway(mode, { KEY_SELF_ROTATION: 'true', BAN_AFTER: '2' });
  });
  afterAll(() => gateway.close());

  const clientOf = (key: string): RestClient => createRestClient(gateway, key);

  it('says what a key may and has left, at no cost', async () => {
    const expiresAt = new Date(Date.now() + 10 * DAY_MS);
    const { key, id } = await gateway.createKey({ plan: 'free', label: 'shop', expiresAt, readOnly: true });
    const client = clientOf(key);
    await client.get('/v1/pets');
    const before = Math.floor(Date.now() / 1_000);
    const { status, body, headers } = await client.get('/v1/key');
    expect(status).toBe(200);
    expect(body).toEqual({
      id,
      label: 'shop',
      plan: 'free',
      readOnly: true,
      limits: { perMinute: 60, perDay: 1_000 },
      createdAt: expect.stringMatching(/^20\d\d-.*Z$/) as string,
      expiresAt: expiresAt.toISOString(),
      secretEndsAt: expiresAt.toISOString(),
      previousEndsAt: null,
      lastUsedAt: null,
      windows: [
        { name: 'minute', seconds: 60, limit: 60, remaining: 59, resetAt: expect.any(Number) as number },
        { name: 'day', seconds: 86_400, limit: 1_000, remaining: 999, resetAt: expect.any(Number) as number },
      ],
      canRotate: true,
    });
    expect(body.windows[0].resetAt).toBeGreaterThanOrEqual(before + 58);
    expect(body.windows[0].resetAt).toBeLessThanOrEqual(before + 62);
    expectLimitHeaders(headers, { limit: 60, remaining: 59 });
    expect(headers.get('cache-control')).toBe('private, no-cache');
    const usage = await client.get('/v1/key/usage');
    expectLimitHeaders(usage.headers, { limit: 60, remaining: 59 });
    // The counts have been written.
    expect(Date.parse((await client.get('/v1/key')).body.lastUsedAt as string) / 1_000).toBeGreaterThanOrEqual(before);
  });

  it('answers HEAD, and 304 to what is known', async () => {
    const client = clientOf((await gateway.createKey()).key);
    const { headers } = await client.get('/v1/key');
    expect(headers.get('etag')).toMatch(/^"[\w-]{27}"$/);
    const { status, text } = await client.get('/v1/key', { 'If-None-Match': '*' });
    expect([status, text]).toEqual([304, '']);
    const head = await client.send('HEAD', '/v1/key/usage');
    expect([head.status, head.text]).toEqual([200, '']);
  });

  it('lists what a key used by day, client and operation', async () => {
    const [{ key, id }, other] = [await gateway.createKey(), await gateway.createKey()];
    const client = clientOf(key);
    await clientOf(other.key).get('/v1/pets', NAMED('another'));
    await client.get('/v1/pets', NAMED('shop'));
    await client.get('/v1/pets', NAMED('shop'));
    await client.get('/v1/pets/9', NAMED('shop'));
    await gateway.graphql('query Old { pet(id: 1) { id } pets { id } }', { key });
    await gateway.sql(
      `INSERT INTO usage (key_id, starts_at, client, operation, deprecated, requests, cost, errors, refused, last_at)
       SELECT $1, date_trunc('day', now(), 'UTC') - days * interval '1 day', '', 'Nightly', deprecated, 5, 5, 2, 1, now()
       FROM (VALUES (29, ''), (29, 'Query.pet'), (30, '')) AS old (days, deprecated)`,
      [id],
    );
    const { status, body } = await client.get('/v1/key/usage');
    expect(status).toBe(200);
    const row = (day: string, client: string | null, operation: string, counts: object) => ({
      day,
      client,
      operation,
      ...{ requests: 1, cost: 1, errors: 0, refused: 0, deprecatedCalls: 0, deprecated: [] },
      ...counts,
    });
    const first = new Date(Date.now() - 29 * DAY_MS).toISOString().slice(0, 10);
    const lookup = 'GET /v1/pets/{petId}';
    expect(body).toEqual({
      since: first,
      rows: [
        row(today(), 'shop', 'GET /v1/pets', { requests: 2, cost: 2 }),
        row(today(), null, 'Old', { cost: 2, errors: 1, deprecatedCalls: 1, deprecated: ['Query.pet'] }),
        row(today(), 'shop', lookup, { errors: 1, deprecatedCalls: 1, deprecated: [lookup] }),
        row(first, null, 'Nightly', {
          ...{ requests: 10, cost: 10, errors: 4, refused: 2, deprecatedCalls: 5, deprecated: ['Query.pet'] },
        }),
      ],
      isCut: false,
    });
    const daysOf = async (query: string): Promise<unknown[]> =>
      ((await client.get(`/v1/key/usage${query}`)).body.rows as { day: string }[]).map(({ day }) => day);
    expect(new Set(await daysOf('?days=29'))).toEqual(new Set([today()]));
    expect(new Set(await daysOf('?days=366')).size).toBe(3);
  });

  it('says if it lists only the latest rows', async () => {
    const { key, id } = await gateway.createKey();
    await gateway.sql(
      `INSERT INTO usage (key_id, starts_at, client, operation, deprecated, requests, cost, errors, refused, last_at)
       SELECT $1, date_trunc('day', now(), 'UTC') - (n / 100) * interval '1 day', '', 'name' || n, '', 1, 1, 0, 0, now()
       FROM generate_series(1, 2500) AS n`,
      [id],
    );
    const { body } = await clientOf(key).get('/v1/key/usage');
    expect([body.rows.length, body.isCut]).toEqual([2_000, true]);
    expect(body.rows[0].day).toBe(today());
  });

  it.each([
    ['?days=0', /^days must be a whole number from 1 to 366, in plain digits, got "0"\.$/],
    ['?days=367', /got "367"/],
    ['?days=1e2', /got "1e2"/],
    ['?days=030', /got "030"/],
    ['?days=', /got ""/],
    ['?days=-1', /got "-1"/],
    ['?days=1&days=2', /"days" twice/],
    ['?since=2026-01-01', /^Unknown parameter "since"\. The usage takes days\.$/],
  ])('refuses %s', async (query, message) => {
    const client = clientOf((await gateway.createKey()).key);
    expectError(await client.get(`/v1/key/usage${query}`), 400, 'invalid_request', message);
  });

  it('refuses other parameters, methods and media types', async () => {
    const client = clientOf((await gateway.createKey()).key);
    expectError(await client.get('/v1/key?id=1'), 400, 'invalid_request', /This request takes none/);
    expectError(await client.get('/v1/key', { Accept: 'text/html' }), 406, 'not_acceptable');
    expectError(await client.get('/v1/key/other'), 404, 'not_found');
    for (const [path, allow] of [
      ['/v1/key', 'GET, HEAD'],
      ['/v1/key/usage', 'GET, HEAD'],
      ['/v1/key/rotate', 'POST'],
    ] as const) {
      const answer = await client.send(allow === 'POST' ? 'GET' : 'POST', path);
      expectError(answer, 405, 'method_not_allowed');
      expect(answer.headers.get('allow')).toBe(allow);
    }
  });

  it('needs a key that works', async () => {
    const revoked = await gateway.createKey();
    const expired = await gateway.createKey({ expiresAt: new Date(Date.now() - 1_000) });
    // The key is cached when it is revoked.
    expect((await clientOf(revoked.key).get('/v1/key')).status).toBe(200);
    await gateway.keys.revoke(revoked.id, 'test');
    for (const client of [createRestClient(gateway), clientOf(revoked.key), clientOf(expired.key)]) {
      expectError(await client.get('/v1/key'), 401, 'unauthorized');
      expectError(await client.send('POST', '/v1/key/rotate'), 401, 'unauthorized');
    }
  });

  it('is limited to 60 requests a minute, together with the field rateLimit, without a ban', async () => {
    const { key } = await gateway.createKey();
    const client = clientOf(key);
    const free = '{ rateLimit { plan } }';
    for (let i = 0; i < 20; i++) expect((await gateway.graphql(free, { key })).errors).toBeUndefined();
    const paths = Array.from({ length: 80 }, (_, i) => (i % 2 ? '/v1/key' : '/v1/key/usage'));
    const answers = await Promise.all(paths.map((path) => client.get(path)));
    const refused = answers.filter(({ status }) => status === 429);
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(40);
    expect(refused).toHaveLength(40);
    expectError(refused[0] as never, 429, 'rate_limited', /60 times a minute/);
    expect(Number(refused[0]?.headers.get('retry-after'))).toBeGreaterThan(0);
    expect((await gateway.graphql(free, { key })).errors?.[0]?.extensions.code).toBe('RATE_LIMITED');
    expect((await client.get('/v1/pets')).status).toBe(200);
    expect((await clientOf((await gateway.createKey()).key).get('/v1/key')).status).toBe(200);
  });

  it('tells a banned key only that it is banned', async () => {
    const { key } = await gateway.createKey({ plan: 'enterprise', limits: { perMinute: 1, perDay: 9 } });
    const client = clientOf(key);
    for (let i = 0; i < 4; i++) await client.get('/v1/pets');
    for (const answer of [await client.get('/v1/key'), await client.send('POST', '/v1/key/rotate')]) {
      expectError(answer, 429, 'key_banned');
      expect(Number(answer.headers.get('retry-after'))).toBeGreaterThan(0);
    }
  });

  describe('rotation', () => {
    const rotate = (key: string, init?: RequestInit) => clientOf(key).send('POST', '/v1/key/rotate', init);
    const statusOf = async (key: string): Promise<number> => (await clientOf(key).get('/v1/pets')).status;
    const rowOf = async (id: string): Promise<Record<string, unknown>> =>
      (await gateway.sql(`SELECT plan, label, expires_at, per_day, read_only FROM api_keys WHERE id = $1`, [id]))[0] ??
      {};

    it('makes a new secret; the old one works for another 24 hours', async () => {
      const { key, id } = await gateway.createKey({ plan: 'pro', label: 'shop', readOnly: true });
      const before = await rowOf(id);
      const counted = sum(await scrape(gateway), 'key_rotations_total') ?? 0;
      const now = Date.now();
      const { status, body, headers } = await rotate(key);
      expect(status).toBe(200);
      expect(headers.get('cache-control')).toBe('no-store');
      const previousEndsAt = expect.any(String) as string;
      expect(body).toEqual({
        id,
        key: expect.stringMatching(/^pets_\w{38}$/) as string,
        expiresAt: null,
        previousEndsAt,
      });
      const end = Date.parse(body.previousEndsAt as string);
      expect(end).toBeGreaterThanOrEqual(now + DAY_MS);
      expect(end).toBeLessThanOrEqual(Date.now() + DAY_MS);
      expect([await statusOf(key), await statusOf(body.key as string)]).toEqual([200, 200]);
      expect(await rowOf(id)).toEqual(before);
      // Both secrets say when the old one ends.
      const [old, current] = [await clientOf(key).get('/v1/key'), await clientOf(body.key as string).get('/v1/key')];
      expect([old.body.id, old.body.secretEndsAt, old.body.expiresAt]).toEqual([id, body.previousEndsAt, null]);
      expect([current.body.secretEndsAt, current.body.previousEndsAt]).toEqual([null, body.previousEndsAt]);
      const [event] = await gateway.keys.listEvents({ id, limit: 1 });
      expect(event).toMatchObject({
        actor: 'the key itself',
        action: 'rotate',
        keyId: id,
        changes: { previousEndsAt: [null, body.previousEndsAt] },
      });
      expect(sum(await scrape(gateway), 'key_rotations_total')).toBe(counted + 1);
      for (const secret of [key, body.key as string]) expect(JSON.stringify(gateway.logged)).not.toContain(secret);
    });

    it('takes an empty body or {}, and nothing that would change the key', async () => {
      const type = { 'Content-Type': 'application/json' };
      for (const init of [{}, { body: '{}', headers: type }, { body: '', headers: type }])
        expect((await rotate((await gateway.createKey()).key, init)).status).toBe(200);
      const { key, id } = await gateway.createKey();
      for (const body of ['{"overlap":0}', '{"plan":"business"}', '{"expiresAt":null}', '[]', 'null', '{'])
        expectError(await rotate(key, { body, headers: type }), 400, 'invalid_request');
      expectError(await clientOf(key).send('POST', '/v1/key/rotate?overlap=0'), 400, 'invalid_request');
      expectError(
        await rotate(key, { body: '{}', headers: { 'Content-Type': 'text/plain' } }),
        415,
        'unsupported_media_type',
      );
      expect(await gateway.keys.listEvents({ id, limit: 9 })).toHaveLength(1);
    });

    it('is refused until the old secret has ended, so nobody can end it early', async () => {
      const { key, id } = await gateway.createKey();
      const { body } = await rotate(key);
      const version = await gateway.keys.findVersion();
      for (const secret of [key, body.key as string])
        expectError(await rotate(secret), 409, 'rotation_under_way', /previousEndsAt/);
      // Servers look up no key again.
      expect(await gateway.keys.findVersion()).toBe(version);
      expect([await statusOf(key), await statusOf(body.key as string)]).toEqual([200, 200]);
      expect((await gateway.keys.find(id))?.previousEndsAt?.toISOString()).toBe(body.previousEndsAt);
      // The overlap is over.
      await gateway.sql(`UPDATE api_keys SET previous_ends_at = now() WHERE id = $1`, [id]);
      expectError(await rotate(key), 401, 'unauthorized');
      expect((await rotate(body.key as string)).status).toBe(200);
      expect(await statusOf(body.key as string)).toBe(200);
    });

    it('succeeds once for requests at the same moment', async () => {
      const { key, id } = await gateway.createKey();
      const answers = await Promise.all(Array.from({ length: 8 }, () => rotate(key)));
      expect(answers.map(({ status }) => status).sort()).toEqual([200, ...Array.from({ length: 7 }, () => 409)]);
      const made = answers.find(({ status }) => status === 200)?.body.key as string;
      expect([await statusOf(key), await statusOf(made)]).toEqual([200, 200]);
      expect(await gateway.keys.listEvents({ id, limit: 9 })).toHaveLength(2);
    });

    it('is not for a secret that an operator has just replaced or revoked, although it is still cached', async () => {
      const replaced = await gateway.createKey();
      expect(await statusOf(replaced.key)).toBe(200);
      const record = (await gateway.keys.find(replaced.id)) as never;
      const { key: current } = (await gateway.keys.rotate(record, 0, 'ada')) as { key: string };
      expectError(await rotate(replaced.key), 401, 'unauthorized');
      expectError(await clientOf(replaced.key).get('/v1/key'), 401, 'unauthorized');
      expect(await statusOf(current)).toBe(200);

      const revoked = await gateway.createKey();
      const before = await gateway.keys.findByDigest(digestApiKey(revoked.key));
      await gateway.keys.revoke(revoked.id, 'ada');
      // The revocation comes between the lookup and the change.
      expect(await gateway.keys.rotate(before as never, 0, 'x', digestApiKey(revoked.key))).toBeUndefined();
      expect(await gateway.keys.listEvents({ id: revoked.id, limit: 1 })).toMatchObject([{ action: 'revoke' }]);
    });

    it('ends the old secret with the key, whose expiry stays', async () => {
      const expiresAt = new Date(Date.now() + 60_000);
      const { key, id } = await gateway.createKey({ expiresAt });
      const { body } = await rotate(key);
      expect([body.expiresAt, body.previousEndsAt]).toEqual([expiresAt.toISOString(), expiresAt.toISOString()]);
      expect((await gateway.keys.find(id))?.expiresAt).toEqual(expiresAt);
    });
  });
});

describe.each(STORES)('rotation that is turned off, %s store', (mode) => {
  it('has no path', async () => {
    const gateway = await startGateway(mode);
    try {
      const client = createRestClient(gateway, (await gateway.createKey()).key);
      expectError(await client.send('POST', '/v1/key/rotate'), 404, 'not_found');
      expect((await client.get('/v1/key')).body.canRotate).toBe(false);
      expect(Object.keys((await client.get('/v1/openapi.json')).body.paths as object)).not.toContain('/key/rotate');
    } finally {
      await gateway.close();
    }
  });
});
