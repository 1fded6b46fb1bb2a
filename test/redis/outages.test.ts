import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, beforeEach, expect, it, vi } from 'vitest';
import { startFaultProxy, type FaultProxy } from '../support/fault-proxy.js';
import { createDatabase, startGateway, type Gateway } from '../support/gateway.js';
import { startRedisServer, type RedisServer } from '../support/redis-server.js';
import { connectRedis, describeWithRedisServer } from '../support/redis.js';

const ONE = '{ pets(limit: 1) { id } }';

describeWithRedisServer('four instances', () => {
  let server: RedisServer;
  let proxy: FaultProxy;
  let drop: () => Promise<void>;
  let instances: [Gateway, Gateway, Gateway, Gateway];

  beforeAll(async () => {
    server = await startRedisServer();
    proxy = await startFaultProxy({ port: server.port });
    const database = await createDatabase();
    drop = database.drop;
    const env = {
      DATABASE_URL: database.url,
      REDIS_URL: `redis://127.0.0.1:${proxy.port}`,
      BAN_AFTER: '2',
      DATABASE_POOL: '2',
    };
    const start = (): Promise<Gateway> => startGateway('server', env);
    instances = await Promise.all([start(), start(), start(), start()]);
  });
  beforeEach(async () => {
    await expectShared(1);
    for (const { logged } of instances) logged.length = 0;
  });
  afterAll(async () => {
    await Promise.all(instances.map((instance) => instance.close()));
    await proxy.close();
    await server.close();
    await drop();
  });

  const createKey = (perMinute: number) =>
    instances[0].createKey({ plan: 'enterprise', limits: { perMinute, perDay: 2 * perMinute } });

  async function ask(instance: Gateway, key: string) {
    const { status, errors, headers } = await instance.graphql(ONE, { key });
    const code = errors?.[0]?.extensions.code;
    return { status, code, remaining: Number(headers.get('x-ratelimit-remaining')) };
  }

  /** Sends requests, one after the other. */
  async function askTimes(count: number, instance: Gateway, key: string): Promise<number> {
    let admitted = 0;
    for (let i = 0; i < count; i++) if ((await ask(instance, key)).status === 200) admitted += 1;
    return admitted;
  }

  const metrics = async (instance: Gateway): Promise<string> => (await instance.fetch('/metrics')).text();

  async function expectShared(shared: 0 | 1): Promise<void> {
    const expected = new RegExp(`^limiter_shared ${shared}$`, 'm');
    const all = async () =>
      expect(await Promise.all(instances.map(metrics))).toEqual(Array(4).fill(expect.stringMatching(expected)));
    await vi.waitFor(all, { timeout: 5_000, interval: 20 });
  }

  const said = (message: string): number =>
    instances.flatMap(({ logged }) => logged).filter(({ msg }) => String(msg).startsWith(message)).length;

  async function pause(milliseconds: number): Promise<void> {
    server.signal('SIGSTOP');
    await sleep(milliseconds);
    server.signal('SIGCONT');
  }

  const signal = (name: NodeJS.Signals) => (): Promise<void> => {
    server.signal(name);
    return Promise.resolve();
  };

  it.each([2, 4])(
    '%i of them admit exactly 1,000 of 1,000, though Redis pauses four times for 150 ms',
    async (count) => {
      const { key } = await createKey(1_000);
      let sent = 0;
      let admitted = 0;
      const clients = Array.from({ length: 16 }, async (_, i) => {
        for (; sent < 1_400;) {
          sent += 1;
          const { status } = await ask(instances[i % count] as Gateway, key);
          if (status === 200) admitted += 1;
        }
      });
      for (let i = 0; i < 4; i++) {
        await pause(150);
        await sleep(100);
      }
      await Promise.all(clients);
      expect(admitted).toBe(1_000);
      expect(said('Redis is unavailable')).toBe(0);
    },
  );

  it('take late replies for errors of their calls alone, and count each request once', async () => {
    const { key } = await createKey(5_000);
    const clients = Array.from({ length: 8 }, (_, i) => askTimes(40, instances[i % 4] as Gateway, key));
    for (let i = 0; i < 3; i++) {
      await pause(400);
      await sleep(50);
    }
    expect((await Promise.all(clients)).reduce((sum, admitted) => sum + admitted)).toBe(320);
    expect(await metrics(instances[0])).toMatch(/^redis_failures_total\{reason="timeout"\} [1-9]/m);
    expect(said('Redis is unavailable')).toBe(0);
    await expectShared(1);
    expect((await ask(instances[3], key)).remaining).toBe(5_000 - 321);
  });

  // Other work on the machine may hold up Redis itself, which is an outage.
  it('share all counts though their host is too busy to read the answers of Redis in time', { retry: 2 }, async () => {
    const { key } = await createKey(5_000);
    const clients = Array.from({ length: 8 }, (_, i) => askTimes(40, instances[i % 4] as Gateway, key));
    for (let i = 0; i < 2; i++) {
      await sleep(50);
      const end = performance.now() + 400;
      while (performance.now() < end);
    }
    expect((await Promise.all(clients)).reduce((sum, admitted) => sum + admitted)).toBe(320);
    expect(said('Redis is unavailable')).toBe(0);
    await expectShared(1);
    expect((await ask(instances[3], key)).remaining).toBe(5_000 - 321);
  });

  it.each([
    ['kept its data', () => proxy.set('refuse'), () => proxy.set('pass')],
    ['was stopped', signal('SIGSTOP'), signal('SIGCONT')],
    ['has lost its data', () => server.kill(), () => server.start()],
  ])('add what each admitted in an outage to a Redis that %s', async (_, fail, mend) => {
    const { key } = await createKey(1_000);
    for (const instance of instances.slice(0, 3)) await askTimes(10, instance, key);
    await fail();
    // Requests find out that Redis is unavailable.
    await Promise.all(instances.map((instance) => askTimes(4, instance, key)));
    await expectShared(0);
    await askTimes(50, instances[0], key);
    await askTimes(70, instances[1], key);
    await mend();
    await expectShared(1);
    // The other two state the sum, though those two get no further request.
    let more = 0;
    const expectSum = async (instance: Gateway): Promise<void> => {
      more += 1;
      expect((await ask(instance, key)).remaining).toBe(1_000 - 30 - 16 - 50 - 70 - more);
    };
    await vi.waitFor(() => expectSum(instances[2]), 5_000);
    await expectSum(instances[3]);
  });

  it('all refuse a key that one of them has banned in an outage', async () => {
    const { key } = await createKey(1);
    await proxy.set('refuse');
    await expectShared(0);
    await askTimes(4, instances[0], key);
    expect(await ask(instances[0], key)).toMatchObject({ status: 429, code: 'KEY_BANNED' });
    expect(await ask(instances[1], key)).toMatchObject({ status: 200 });
    await proxy.set('pass');
    await expectShared(1);
    await vi.waitFor(async () => expect(await ask(instances[2], key)).toMatchObject({ code: 'KEY_BANNED' }), 5_000);
    for (const instance of instances) expect(await ask(instance, key)).toMatchObject({ code: 'KEY_BANNED' });
  });

  it('all refuse a banned key though Redis has lost the ban', async () => {
    const { key } = await createKey(1);
    await askTimes(4, instances[0], key);
    const redis = await connectRedis(server.url);
    await redis.flushall();
    redis.disconnect();
    expect(await ask(instances[0], key)).toMatchObject({ code: 'KEY_BANNED' });
    await vi.waitFor(async () => expect(await ask(instances[1], key)).toMatchObject({ code: 'KEY_BANNED' }));
  });

  it.each(['SET', 'LPUSH'])('share all keys but one whose entry has a wrong type (%s)', async (command) => {
    const [{ id, key }, { key: other }] = [await createKey(100), await createKey(100)];
    const redis = await connectRedis(server.url);
    const name = `animals:store:key:{${id}}:minute`;
    await redis.call(command, name, 'something else');
    expect(await askTimes(10, instances[0], key)).toBe(10);
    expect(await askTimes(60, instances[0], other)).toBe(60);
    expect((await ask(instances[1], other)).remaining).toBe(39);
    expect(await metrics(instances[0])).toMatch(/^redis_failures_total\{reason="error"\} [1-9]/m);
    await expectShared(1);
    expect(said('Redis is unavailable')).toBe(0);
    await redis.del(name);
    redis.disconnect();
    expect((await ask(instances[0], key)).remaining).toBe(89);
    expect((await ask(instances[1], key)).remaining).toBe(88);
  });

  it.each(['1e30', 'nan', '-inf', '-5', 'many'])(
    'share all keys, also one whose entry has the number %s',
    async (number) => {
      const { id, key } = await createKey(100);
      const redis = await connectRedis(server.url);
      await redis.hset(`animals:store:key:{${id}}:minute`, 'used', number, 'closes', String(Date.now() + 60_000));
      await redis.hset(`animals:store:key:{${id}}:day`, 'closes', number);
      await redis.set(`animals:store:key:{${id}}:ban`, number);
      redis.disconnect();
      expect((await ask(instances[0], key)).remaining).toBe(99);
      expect((await ask(instances[1], key)).remaining).toBe(98);
      expect(said('Redis is unavailable')).toBe(0);
    },
  );
});
