import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { startFaultProxy, type FaultProxy } from '../support/fault-proxy.js';
import { createDatabase, startGateway, type Gateway } from '../support/gateway.js';
import { startRedisServer, type RedisServer } from '../support/redis-server.js';
import { connectRedis, describeWithRedisServer } from '../support/redis.js';

const ONE = '{ pets(limit: 1) { id } }';
const PASSWORD = 's3cret-of-redis';
/** Far longer than a request should wait, far shorter than the default timeouts of Redis clients. */
const SOON_MS = 1_500;

describeWithRedisServer('two instances whose Redis fails', () => {
  let server: RedisServer;
  let proxy: FaultProxy;
  let drop: () => Promise<void>;
  let instances: [Gateway, Gateway];

  beforeAll(async () => {
    server = await startRedisServer('--requirepass', PASSWORD);
    proxy = await startFaultProxy({ port: server.port });
    const database = await createDatabase();
    drop = database.drop;
    const env = {
      DATABASE_URL: database.url,
      REDIS_URL: `redis://:${PASSWORD}@127.0.0.1:${proxy.port}`,
      BAN_AFTER: '1000',
      DATABASE_POOL: '4',
    };
    instances = [await startGateway('server', env), await startGateway('server', env)];
  });
  afterAll(async () => {
    await Promise.all(instances.map((instance) => instance.close()));
    await proxy.close();
    await server.close();
    await drop();
  });

  interface Asked {
    readonly status: number;
    readonly remaining: number;
    readonly milliseconds: number;
  }

  async function ask(instance: Gateway, key: string): Promise<Asked> {
    const start = performance.now();
    const { status, headers } = await instance.graphql(ONE, { key });
    return { status, remaining: Number(headers.get('x-ratelimit-remaining')), milliseconds: performance.now() - start };
  }

  async function metricOf(instance: Gateway, name: string): Promise<number> {
    const text = await (await instance.fetch('/metrics')).text();
    return text
      .split('\n')
      .filter((line) => line.startsWith(name))
      .reduce((sum, line) => sum + Number(line.split(' ').at(-1)), 0);
  }

  const said = (instance: Gateway, message: string): number =>
    instance.logged.filter(({ msg }) => String(msg).startsWith(message)).length;

  async function expectSharing(key: string): Promise<void> {
    await vi.waitFor(
      async () => {
        const [one, other] = instances;
        const first = await ask(one, key);
        const second = await ask(other, key);
        const third = await ask(one, key);
        expect([second.remaining, third.remaining]).toEqual([first.remaining - 1, first.remaining - 2]);
        for (const instance of instances) expect(await metricOf(instance, 'limiter_shared')).toBe(1);
      },
      { timeout: 5_000, interval: 50 },
    );
  }

  it.each<[string, () => Promise<void> | void, () => Promise<void> | void]>([
    ['is stopped', () => server.signal('SIGSTOP'), () => server.signal('SIGCONT')],
    ['stalls', () => proxy.set('stall'), () => proxy.set('pass')],
    ['is behind a network that drops everything', () => proxy.set('blackhole'), () => proxy.set('pass')],
    ['refuses connections', () => proxy.set('refuse'), () => proxy.set('pass')],
    ['resets connections', () => proxy.set('reset'), () => proxy.set('pass')],
    ['answers garbage', () => proxy.set('garbage'), () => proxy.set('pass')],
    ['ends, and starts again empty', () => server.kill(), () => server.start()],
  ])('count separately while it %s, and share again when it is back', async (fault, fail, mend) => {
    const { key } = await instances[0].createKey({ plan: 'enterprise', limits: { perMinute: 500, perDay: 5_000 } });
    await expectSharing(key);
    const usual: Asked[] = [];
    for (let i = 0; i < 10; i++) usual.push(await ask(instances[i % 2] as Gateway, key));
    const before = usual.at(-1)?.remaining ?? NaN;
    for (const instance of instances) instance.logged.length = 0;

    const during: Asked[] = [];
    try {
      await fail();
      for (let round = 0; round < 6; round++) {
        during.push(...(await Promise.all(Array.from({ length: 6 }, (_, i) => ask(instances[i % 2] as Gateway, key)))));
      }
      expect(during.map(({ status }) => status)).toEqual(during.map(() => 200));
      for (const instance of instances) {
        expect(await metricOf(instance, 'limiter_shared')).toBe(0);
        expect(await metricOf(instance, 'redis_failures_total')).toBeGreaterThan(0);
        expect((await instance.fetch('/readyz')).status).toBe(200);
        expect(said(instance, 'Redis is unavailable')).toBe(1);
      }
    } finally {
      // The next fault begins with a Redis that works.
      await mend();
    }

    const mended = performance.now();
    await expectSharing(key);
    const backAfter = performance.now() - mended;
    const after = await ask(instances[0], key);
    expect(after.remaining).toBeLessThan(before);
    for (const instance of instances) {
      expect(said(instance, 'Redis is unavailable')).toBe(1);
      expect(said(instance, 'Redis is back')).toBe(1);
      expect(JSON.stringify(instance.logged)).not.toContain(PASSWORD);
    }

    const slowest = (asked: Asked[]): number => Math.max(...asked.map(({ milliseconds }) => milliseconds));
    console.info(
      `Redis ${fault}: usual slowest ${slowest(usual).toFixed(0)} ms, during ${slowest(during).toFixed(0)} ms, shared again after ${backAfter.toFixed(0)} ms`,
    );
    expect(slowest(during)).toBeLessThan(slowest(usual) + SOON_MS);
  });

  it('keep the count of a key that they have seen after FLUSHALL', async () => {
    const { key } = await instances[0].createKey({ plan: 'enterprise', limits: { perMinute: 500, perDay: 5_000 } });
    await expectSharing(key);
    const { remaining } = await ask(instances[0], key);
    const redis = await connectDirectly();
    await redis.flushall();
    await redis.quit();
    expect((await ask(instances[0], key)).remaining).toBe(remaining - 1);
  });

  it('enforce the limit separately, starting from the last shared count', async () => {
    const { key } = await instances[0].createKey({ plan: 'enterprise', limits: { perMinute: 10, perDay: 100 } });
    await expectSharing(key);
    const seen = [await ask(instances[0], key), await ask(instances[1], key)].map(({ remaining }) => remaining);
    await proxy.set('refuse');
    try {
      for (const [i, instance] of instances.entries()) {
        const statuses: number[] = [];
        for (let n = 0; n < 10; n++) statuses.push((await ask(instance, key)).status);
        expect(statuses.filter((status) => status === 200)).toHaveLength(seen[i] as number);
        expect(statuses.at(-1)).toBe(429);
      }
    } finally {
      await proxy.set('pass');
    }
    await vi.waitFor(async () => expect(await metricOf(instances[1], 'limiter_shared')).toBe(1), { timeout: 5_000 });
    expect((await ask(instances[1], key)).status).toBe(429);
  });

  it('send one command to Redis per request', async () => {
    const { key } = await instances[0].createKey({ plan: 'enterprise', limits: { perMinute: 500, perDay: 5_000 } });
    await expectSharing(key);
    const calls = async (): Promise<number> => {
      const link = await connectDirectly();
      const [, count] = /cmdstat_evalsha:calls=(\d+)/.exec(await link.info('commandstats')) ?? [];
      link.disconnect();
      return Number(count);
    };
    const before = await calls();
    for (let i = 0; i < 20; i++) await ask(instances[i % 2] as Gateway, key);
    await instances[0].graphql('{ __typename }', { key });
    await instances[0].graphql('{ nothing }', { key });
    await instances[1].fetch('/v1/pets', { headers: { Authorization: `Bearer ${key}` } });
    expect((await calls()) - before).toBe(23);
  });

  it('wait with their start while it is unavailable, and share when it is back', async () => {
    await server.kill();
    const database = await createDatabase();
    const starting = startGateway('server', {
      DATABASE_URL: database.url,
      REDIS_URL: `redis://:${PASSWORD}@127.0.0.1:${proxy.port}`,
    });
    await sleep(500);
    await server.start();
    const late = await starting;
    try {
      const { key } = await late.createKey();
      expect((await ask(late, key)).remaining).toBe(999);
      expect([said(late, 'Redis is unavailable'), await metricOf(late, 'limiter_shared')]).toEqual([0, 1]);
    } finally {
      await late.close();
      await database.drop();
    }
  });

  function connectDirectly() {
    return connectRedis(`redis://:${PASSWORD}@127.0.0.1:${server.port}`);
  }
});
