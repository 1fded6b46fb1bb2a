// Redis Sentinel, and a Redis Cluster, replace a primary that was killed: no request fails, and limits stay shared.
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { judge, startLoad } from '../support/load.js';
import { createDatabase, startGateway, type Gateway } from '../support/gateway.js';
import { describeWithRedisServer } from '../support/redis.js';
import { startCluster, startSentinels, type RedisTopology } from '../support/redis-topologies.js';

const PETS = '{ pets { id } }';

describeWithRedisServer.each([
  ['Sentinel', startSentinels],
  ['a cluster', startCluster],
])('two instances with %s', (name, start) => {
  let redis: RedisTopology;
  let database: Awaited<ReturnType<typeof createDatabase>>;
  let instances: [Gateway, Gateway];

  beforeAll(async () => {
    [redis, database] = await Promise.all([start(), createDatabase()]);
    const env = { REDIS_URL: redis.url, DATABASE_URL: database.url };
    instances = [await startGateway('server', env), await startGateway('server', env)];
  });
  afterAll(async () => {
    for (const instance of instances) await instance.close();
    await redis.close();
    await database.drop();
  });

  const isShared = async (): Promise<boolean> => {
    const texts = await Promise.all(instances.map(async (one) => (await one.fetch('/metrics')).text()));
    return texts.every((text) => /^limiter_shared 1$/m.test(text));
  };

  async function countAdmitted(key: string, requests: number): Promise<number> {
    const statuses: number[] = [];
    for (let i = 0; i < requests; i++) {
      statuses.push((await (instances[i % 2] as Gateway).graphql(PETS, { key })).status);
    }
    return statuses.filter((status) => status === 200).length;
  }

  it('share the limits of every key, and nothing is logged as unavailable', async () => {
    expect(await isShared()).toBe(true);
    for (let i = 0; i < 10; i++) {
      const { key } = await instances[0].createKey({ plan: 'enterprise', limits: { perMinute: 5, perDay: 100 } });
      expect(await countAdmitted(key, 8)).toBe(5);
    }
    const levels = instances.flatMap(({ logged }) => logged.map(({ level }) => Number(level)));
    expect(Math.max(...levels)).toBe(30);
  });

  it('answer every request during a failover, and share the counts afterwards', async () => {
    const { id, key } = await instances[0].createKey({ plan: 'enterprise', limits: { perMinute: 40, perDay: 9_000 } });
    expect(await countAdmitted(key, 20)).toBe(20);
    const { key: busy } = await instances[0].createKey({
      plan: 'enterprise',
      limits: { perMinute: 1e6, perDay: 1e6 },
    });
    const loads = instances.map(({ url }) => startLoad({ url, key: busy, readers: 2, writers: 2 }));
    await sleep(1_000);
    const failedAt = performance.now();
    await redis.failOver(`animals:store:key:{${id}}`);
    const tookOver = Math.round(performance.now() - failedAt);
    await vi.waitFor(async () => expect(await isShared()).toBe(true), { timeout: 20_000 });
    const shared = Math.round(performance.now() - failedAt);
    await Promise.all(loads.map((load) => load.stop()));
    for (const [index, load] of loads.entries()) {
      const outcome = await judge(`sentinel: ${name}, instance ${index + 1}`, load, database.url);
      expect(outcome).toMatchObject({ lost: 0, duplicated: 0 });
      expect(Object.keys(outcome.reads)).toEqual(['200']);
      expect(Object.keys(outcome.adds)).toEqual(['200', '201']);
    }
    console.log(`another primary after ${tookOver} ms, limits shared again after ${shared} ms`);
    // What was counted before the failover still counts.
    expect(await countAdmitted(key, 30)).toBe(20);
    for (const { logged } of instances) {
      expect(logged.filter(({ msg }) => String(msg).startsWith('Redis is unavailable'))).toHaveLength(1);
    }
  });
});
