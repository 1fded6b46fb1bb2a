import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createPetClient, isPetError, type LimitNotice, type PetClient, type PetClientOptions } from '../src/index.js';
import { createNotices } from '../src/notices.js';
import { startGateway, STORES, type Gateway } from '../../../test/support/gateway.js';
import { getFromLists, lookups } from './lookups.js';

describe.each(STORES)('key, usage and onNotice, %s store', (mode) => {
  let gateway: Gateway;

  beforeAll(async () => {
    gateway = await startGateway(mode, { BAN_AFTER: '1', ...lookups() });
    await gateway.sql(`INSERT INTO pets (name, category_id) SELECT 'Animal ' || n, 1 FROM generate_series(1, 99) AS n`);
  });
  afterAll(() => gateway.close());

  const connect = (key: string, options: Partial<PetClientOptions> = {}): PetClient =>
    createPetClient({ url: `${gateway.url}/graphql`, key, getFromLists, ...options });

  const failureOf = async (call: Promise<unknown>): Promise<unknown> => {
    const error: unknown = await call.catch((thrown: unknown) => thrown);
    return isPetError(error) ? error : ['not a PetError', error];
  };

  it('say what a key may, has left and has used', async () => {
    const { key, id } = await gateway.createKey({ plan: 'free', label: 'shop' });
    const client = connect(key, { clientName: 'till' });
    await client.loadMany([1, 101, 201]);
    const { windows, ...own } = await client.key();
    expect(own).toMatchObject({ id, label: 'shop', plan: 'free', readOnly: false, canRotate: false, expiresAt: null });
    expect(windows).toMatchObject([
      { name: 'minute', remaining: 57 },
      { name: 'day', remaining: 997 },
    ]);
    const day = new Date().toISOString().slice(0, 10);
    const { since, rows, isCut } = await client.usage({ days: 1 });
    expect([since, isCut]).toEqual([day, false]);
    expect(rows[0]).toMatchObject({
      client: 'till',
      operation: 'LookUp',
      cost: 3,
      deprecatedCalls: getFromLists ? 0 : 1,
    });
    expect((await client.usage()).since < day).toBe(true);
    const slash = createPetClient({ url: `${gateway.url}/graphql/`, key });
    expect((await slash.key()).id).toBe(id);
  });

  it('throw a PetError, and never the key', async () => {
    const wrong = `pets_${'0'.repeat(38)}`;
    expect(await failureOf(connect(wrong).key())).toMatchObject({
      code: 'UNAUTHENTICATED',
      requestId: expect.stringMatching(/./) as string,
      error: { status: 401 },
    });
    const { key } = await gateway.createKey({ plan: 'enterprise', limits: { perMinute: 1, perDay: 9 } });
    expect(await failureOf(connect(key).usage({ days: 0 }))).toMatchObject({
      code: 'BAD_USER_INPUT',
      message: expect.stringContaining('from 1 to 366') as string,
    });
    for (let count = 0; count < 60; count++) await connect(key).key();
    expect(await failureOf(connect(key).key())).toMatchObject({
      code: 'RATE_LIMITED',
      retryAfter: expect.any(Number) as number,
    });
    const path = { headers: { Authorization: `Bearer ${key}` } };
    for (let count = 0; count < 4; count++) await gateway.fetch('/v1/pets', path);
    expect(await failureOf(connect(key).key())).toMatchObject({ code: 'KEY_BANNED' });
    const away = createPetClient({ url: 'http://127.0.0.1:9/graphql', key });
    const lost = await failureOf(away.key());
    expect(lost).toMatchObject({ code: 'CONNECTION_FAILED' });
    expect((lost as Error).message).not.toContain(key);
    const slow = connect(key, {
      timeoutMs: 1,
      fetch: async (_, { signal }) => {
        throw (await aborted(signal)) as Error;
      },
    });
    expect(await failureOf(slow.key())).toMatchObject({ code: 'TIMED_OUT' });
    const html = connect(key, { fetch: () => Promise.resolve(new Response('<html>', { status: 502 })) });
    expect(await failureOf(html.key())).toMatchObject({ code: 'SERVICE_UNAVAILABLE' });
    const none = connect(key, { fetch: () => Promise.resolve(new Response('<html>')) });
    expect(await failureOf(none.key())).toMatchObject({ code: 'UNRECOGNIZED' });
  });

  it('end with the reason of their signal', async () => {
    const { key } = await gateway.createKey();
    const reason = new Error('enough');
    await expect(connect(key).key({ signal: AbortSignal.abort(reason) })).rejects.toBe(reason);
    const controller = new AbortController();
    const client = connect(key, {
      fetch: async (_, { signal }) => {
        throw (await aborted(signal)) as Error;
      },
    });
    const call = client.usage({ signal: controller.signal });
    controller.abort(reason);
    await expect(call).rejects.toBe(reason);
  });

  it('give notice at 80 and 95 percent of a window, once each', async () => {
    const { key } = await gateway.createKey({ plan: 'enterprise', limits: { perMinute: 20, perDay: 1_000 } });
    const notices: LimitNotice[] = [];
    const limits: number[] = [];
    const onLimit: PetClientOptions['onLimit'] = ([minute]) => limits.push(minute?.remaining ?? -1);
    const client = connect(key, { onNotice: (notice) => notices.push(notice), onLimit });
    for (let count = 0; count < 20; count++) await client.list();
    await client.key();
    expect(limits).toHaveLength(20);
    expect(notices).toMatchObject([
      { percent: 80, window: { name: 'minute', limit: 20, remaining: 4 } },
      { percent: 95, window: { name: 'minute', limit: 20, remaining: 1 } },
    ]);
    const others: LimitNotice[] = [];
    // Another client learns of it from what it asks for nothing.
    await connect(key, { onNotice: (notice) => others.push(notice) }).key();
    expect(others).toMatchObject([{ percent: 95, window: { name: 'minute', remaining: 0 } }]);
  });
});

it('gives notice again in the next window, and at most once for one whose reset time is rounded', async () => {
  const told: string[] = [];
  const notice = createNotices(({ percent, window: { name, remaining } }) =>
    told.push(`${name} ${percent} ${remaining}`),
  );
  const see = (remaining: number, resetAt: number): void => notice([{ name: 'day', limit: 100, remaining, resetAt }]);
  see(21, 50_000);
  see(20, 50_000);
  see(18, 51_000);
  see(4, 49_500);
  see(15, 50_400);
  see(0, 50_000);
  see(100, 60_000);
  see(3, 60_000);
  see(2, 60_900);
  await Promise.resolve();
  expect(told).toEqual(['day 80 20', 'day 95 4', 'day 95 3']);
});

it('gives no notice for a late response of the window before', async () => {
  const told: number[] = [];
  const notice = createNotices(({ window: { remaining } }) => told.push(remaining));
  for (const [remaining, resetAt] of [
    [4, 1_000],
    [99, 60_000],
    [3, 0],
  ] as const)
    notice([{ name: 'minute', limit: 100, remaining, resetAt }]);
  await Promise.resolve();
  expect(told).toEqual([4]);
});

it('asks for the usage of the days that it is given, whatever they are', async () => {
  const urls: string[] = [];
  const fetch = (url: string): Promise<Response> => Promise.resolve(Response.json(urls.push(url)));
  const client = createPetClient({ url: 'http://store.example/graphql', key: 'k', fetch });
  await client.usage({ days: '1&days=2' as unknown as number });
  expect(urls).toEqual(['http://store.example/v1/key/usage?days=1%26days%3D2']);
});

it('a gateway in front of another store has no /v1/key', async () => {
  const gateway = await startGateway('proxy');
  try {
    const { key } = await gateway.createKey();
    const error: unknown = await createPetClient({ url: `${gateway.url}/graphql`, key })
      .key()
      .catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ code: 'UNRECOGNIZED', receivedCode: 'not_found' });
  } finally {
    await gateway.close();
  }
});

function aborted(signal: AbortSignal | null | undefined): Promise<unknown> {
  return new Promise((resolve) => signal?.addEventListener('abort', () => resolve(signal.reason)));
}
