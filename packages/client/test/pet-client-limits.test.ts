import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { createPetClient, isPetError, type PetError, type PetClient, type PetClientOptions } from '../src/index.js';
import { startGateway, startProxyBefore, STORES, type Gateway, type ProxyOnly } from '../../../test/support/gateway.js';
import { startShortWindowStore, type ShortWindowStore } from '../../../test/support/short-window-store.js';
import { getFromLists, lookups } from './lookups.js';

function connect(url: string, key: string, options: Partial<PetClientOptions> = {}): PetClient {
  return createPetClient({ url: `${url}/graphql`, key, getFromLists, ...options });
}

/** Ids so far apart that none share a list, and each costs 1 also through lists. */
const upTo = (count: number): number[] => Array.from({ length: count }, (_, index) => 100 * (index + 1));

const codesOf = (results: readonly unknown[]): unknown[] =>
  results.map((result) => (isPetError(result) ? result.code : 'ok'));

describe.each(STORES)('the limits of a key, %s store', (mode) => {
  let gateway: Gateway;

  beforeAll(async () => {
    gateway = await startGateway(mode, { BAN_AFTER: '1', BAN_SECONDS: '2', MAX_ROOT_FIELDS: '70', ...lookups() });
    await gateway.sql(
      `INSERT INTO pets (id, name, category_id) SELECT n, 'Animal ' || n, 1 FROM generate_series(100, 30000, 100) AS n`,
    );
  });
  afterAll(() => gateway.close());

  /** Counts the responses by status. */
  async function countStatuses(): Promise<Record<string, number>> {
    const text = await (await gateway.fetch('/metrics')).text();
    const lines = text.matchAll(
      /^http_server_request_duration_seconds_count\{http_route="\/graphql".*status_code="(\d+)".*\} (\d+)$/gm,
    );
    return Object.fromEntries([...lines].map(([, status, count]) => [status as string, Number(count)]));
  }

  it('are never exceeded: a lookup without room within its budget fails without a request', async () => {
    const { key } = await gateway.createKey({ plan: 'free' });
    const before = await countStatuses();
    const results = await connect(gateway.url, key, { maxWaitMs: 1_000 }).loadMany(upTo(150));
    expect(codesOf(results)).toEqual([...Array<string>(60).fill('ok'), ...Array<string>(90).fill('RATE_LIMITED')]);
    const { retryAfter, requestId } = results[149] as PetError & { code: 'RATE_LIMITED' };
    expect(retryAfter).toBeGreaterThan(30);
    expect(retryAfter).toBeLessThanOrEqual(61);
    expect(requestId).toBe('');
    const after = await countStatuses();
    expect(after['429'] ?? 0).toBe(before['429'] ?? 0);
  });

  it('can be shared with other clients, because responses show the use of all', async () => {
    const { key } = await gateway.createKey({ plan: 'enterprise', limits: { perMinute: 100, perDay: 1_000 } });
    const client = connect(gateway.url, key, { maxWaitMs: 1_000 });
    await client.get(100);
    for (let use = 0; use < 3; use++) await gateway.graphql(`{ pets(limit: ${use + 1}) { id } }`, { key });
    await client.get(200);
    expect(codesOf(await client.loadMany(upTo(100)))).toEqual([
      ...Array<string>(95).fill('ok'),
      ...Array<string>(5).fill('RATE_LIMITED'),
    ]);
  });

  it('let what fits through after the refusal of a call that costs more', async () => {
    const { key } = await gateway.createKey({ plan: 'enterprise', limits: { perMinute: 40, perDay: 1_000 } });
    await connect(gateway.url, key).loadMany(upTo(30));
    const other = connect(gateway.url, key, { maxWaitMs: 1_000 });
    expect(codesOf(await other.loadMany(upTo(30)))).toEqual([
      ...Array<string>(10).fill('ok'),
      ...Array<string>(20).fill('RATE_LIMITED'),
    ]);
  });

  it('say how many lookups the next request may have if the first had too many', async () => {
    const { key } = await gateway.createKey({ plan: 'enterprise', limits: { perMinute: 60, perDay: 1_000 } });
    const ownFetch = vi.fn(fetch);
    const results = await connect(gateway.url, key, { maxWaitMs: 0, fetch: ownFetch }).loadMany(upTo(70));
    expect(codesOf(results)).toEqual([...Array<string>(60).fill('ok'), ...Array<string>(10).fill('RATE_LIMITED')]);
    expect(ownFetch).toHaveBeenCalledTimes(2);
  });

  it('are reported after each response', async () => {
    const { key } = await gateway.createKey({ plan: 'pro' });
    const seen: unknown[] = [];
    const client = connect(gateway.url, key, {
      onLimit: (windows) => seen.push(windows.map(({ name, limit, remaining }) => [name, limit, remaining])),
    });
    await client.list();
    await client.loadMany(upTo(9));
    expect(seen).toEqual([
      [
        ['minute', 300, 299],
        ['day', 10_000, 9_999],
      ],
      [
        ['minute', 300, 290],
        ['day', 10_000, 9_990],
      ],
    ]);
  });

  it('keep no caller waiting if their listener throws', async () => {
    const { key } = await gateway.createKey({ plan: 'pro' });
    const thrown: unknown[] = [];
    const queue = vi.spyOn(globalThis, 'queueMicrotask').mockImplementation((run) => {
      Promise.resolve()
        .then(run)
        .catch((error: unknown) => thrown.push(error));
    });
    const client = connect(gateway.url, key, {
      onLimit: () => {
        throw new Error('a bug of the page');
      },
    });
    await client.list();
    queue.mockRestore();
    expect(thrown).toEqual([new Error('a bug of the page')]);
  });

  it('do not hide other limits: the client learns that the server accepts fewer root fields', async () => {
    const { key } = await gateway.createKey();
    const results = await connect(gateway.url, key).loadMany(upTo(300));
    expect(codesOf(results)).toEqual(Array<string>(300).fill('ok'));
  });

  it('include bans: the client waits if the ban ends within the budget, and fails at once otherwise', async () => {
    const { key } = await gateway.createKey({ plan: 'enterprise', limits: { perMinute: 3, perDay: 1_000 } });
    const two = '{ a: pets(limit: 1) { id } b: pets(limit: 2) { id } }';
    const codes: unknown[] = [];
    for (let use = 0; use < 3; use++) {
      codes.push((await gateway.graphql(two, { key })).errors?.[0]?.extensions.code);
    }
    expect(codes).toEqual([undefined, 'RATE_LIMITED', 'KEY_BANNED']);
    const impatient = connect(gateway.url, key, { maxWaitMs: 0 });
    await expect(impatient.get(100)).rejects.toMatchObject({
      code: 'KEY_BANNED',
      retryAfter: expect.any(Number) as number,
    });
    expect(await connect(gateway.url, key).get(100)).toMatchObject({ name: 'Animal 100' });
  });
});

describe('limits that are raised', () => {
  /** Answers each request with the next limits, or refuses it with a status. The last ones stay. */
  function connectTo(limits: readonly string[], options: Partial<PetClientOptions> = {}) {
    const sizes: number[] = [];
    const fetch: PetClientOptions['fetch'] = (_, { body }) => {
      const [policy = '', state = ''] = (limits[sizes.length] ?? limits.at(-1) ?? '').split(' ');
      const stated = { 'RateLimit-Policy': policy, RateLimit: state, 'Retry-After': '3600' };
      const headers: Record<string, string> = policy === 'unlimited' ? {} : stated;
      const aliases = [...(body as string).matchAll(/(_\d+):pet/g)].map(([, alias]) => alias);
      sizes.push(aliases.length);
      if (policy === 'offline') return Promise.reject(new TypeError('fetch failed'));
      if (state === '') return Promise.resolve(new Response('', { status: Number(policy), headers }));
      const data = Object.fromEntries(aliases.map((alias) => [alias, []])) as object;
      return Promise.resolve(Response.json({ data }, { headers }));
    };
    const client = createPetClient({
      url: 'http://store.example/graphql',
      key: 'k',
      maxWaitMs: 1_000,
      ...options,
      fetch,
    });
    return { client, sizes };
  }

  it('count from the next response, also if less was left of the old ones', async () => {
    const onLimit = vi.fn();
    const limits = ['"day";q=5;w=86400 "day";r=4;t=5000', '"day";q=1000;w=86400 "day";r=998;t=5000'];
    const { client, sizes } = connectTo(limits, { onLimit });
    await client.list();
    await client.list();
    expect(onLimit).toHaveBeenLastCalledWith([expect.objectContaining({ limit: 1_000, remaining: 998 })]);
    await client.loadMany(upTo(50));
    expect(sizes).toEqual([1, 1, 50]);
  });

  it.each([
    ['nothing is left', 'RATE_LIMITED', '"day";q=1;w=86400 "day";r=0;t=5000'],
    ['requests were given back', 'RATE_LIMITED', '"day";q=9;w=86400 "day";r=0;t=5000'],
    ['a call was refused', 'RATE_LIMITED', '429'],
    ['the store was down, and stated an hour', 'SERVICE_UNAVAILABLE', '503'],
  ])('are noticed within a minute if %s', async (_, code, usedUp) => {
    const clock = vi.spyOn(performance, 'now');
    try {
      const { client, sizes } = connectTo([usedUp, usedUp, '"day";q=9;w=86400 "day";r=8;t=5000']);
      const loadTwo = async () => codesOf(await client.loadMany([100, 200]));
      const refused = [code, code];
      await client.list().catch(() => undefined);
      expect([await loadTwo(), sizes.length]).toEqual([refused, 1]);
      const start = performance.now();
      clock.mockImplementation(() => start + 61_000);
      // One request finds that the limit still holds, and the next one, a minute later, that it does not.
      expect((await loadTwo()).at(-1)).toBe(code);
      expect([await loadTwo(), sizes]).toEqual([refused, [1, 1]]);
      clock.mockImplementation(() => start + 122_000);
      expect(await loadTwo()).toEqual(['ok', 'ok']);
      expect(sizes).toEqual([1, 1, 1, 1]);
    } finally {
      clock.mockRestore();
    }
  });

  it('are forgotten if a response to the request that tries them states none', async () => {
    const { client, sizes } = connectTo(['"day";q=1;w=86400 "day";r=0;t=5000', 'unlimited -']);
    await client.list();
    const realNow = performance.now.bind(performance);
    const clock = vi.spyOn(performance, 'now').mockImplementation(() => realNow() + 61_000);
    try {
      await client.list();
      await client.list();
      expect(sizes).toEqual([1, 1, 1]);
    } finally {
      clock.mockRestore();
    }
  });

  it('are not forgotten if the request that tries them gets no response', async () => {
    const { client, sizes } = connectTo([
      '"day";q=1;w=86400 "day";r=0;t=5000',
      'offline',
      '"day";q=9;w=86400 "day";r=8;t=5',
    ]);
    await client.list();
    await client.get(1).catch(() => undefined);
    const realNow = performance.now.bind(performance);
    const clock = vi.spyOn(performance, 'now').mockImplementation(() => realNow() + 61_000);
    try {
      expect(codesOf(await client.loadMany([1, 2]))).toEqual(['RATE_LIMITED', 'RATE_LIMITED']);
      expect(sizes).toEqual([1, 1]);
    } finally {
      clock.mockRestore();
    }
  });
});

describe.concurrent('a window that opens again', () => {
  let store: ShortWindowStore;
  let gateway: ProxyOnly;

  beforeAll(async () => {
    store = await startShortWindowStore({ limit: 20, seconds: 2 });
    gateway = await startProxyBefore(store.url, lookups());
  });
  afterAll(async () => {
    await gateway.close();
    await store.close();
  });

  it('is waited for, and nothing is refused meanwhile', async () => {
    const client = connect(gateway.url, 'a-key');
    // The gateway learns the windows from its first response, and the client from the gateway.
    await client.get(100);
    const results = await client.loadMany(upTo(70));
    expect(codesOf(results)).toEqual(Array<string>(70).fill('ok'));
    expect(results.map((result) => (isPetError(result) ? result.code : result.name))).toEqual(
      upTo(70).map((id) => `Animal ${id}`),
    );
    expect(store.refusedOf('a-key')).toBe(0);
  });

  it('is waited for if the upstream refused some lookups of a request', async () => {
    const client = connect(gateway.url, 'another-key');
    const results = await client.loadMany(upTo(50));
    expect(codesOf(results)).toEqual(Array<string>(50).fill('ok'));
  });
});
