import { createHash, randomUUID } from 'node:crypto';
import { expect, it } from 'vitest';
import { createMemoryLedger } from '../../src/access/memory-ledger.js';
import { toWindows } from '../../src/access/plans.js';
import { shareLedger } from '../../src/redis/redis-ledger.js';
import { createRedisQueryCache } from '../../src/redis/redis-query-cache.js';
import { createDatabase, startGateway, type Gateway } from '../support/gateway.js';
import { connectRedis, describeWithRedisServer, openTestLink } from '../support/redis.js';
import { startRedisServer } from '../support/redis-server.js';

describeWithRedisServer('persisted queries in Redis', () => {
  it('never fill the memory in which instances count, however many clients register', async () => {
    const server = await startRedisServer('--maxmemory', '12mb', '--maxmemory-policy', 'noeviction');
    const patient = { deadlineMs: 10_000 };
    const { link: queries } = await openTestLink(server.url, patient);
    const cache = createRedisQueryCache(queries);
    for (let sent = 0; sent < 20_000; sent += 1_000) {
      const texts = Array.from({ length: 1_000 }, (_, i) => `{ q${sent + i}: pets { id } }`.padEnd(4_000));
      await Promise.all(texts.map((text) => cache.set(`apq:${createHash('sha256').update(text).digest('hex')}`, text)));
    }
    const client = await connectRedis(server.url);
    expect(await client.dbsize()).toBeLessThanOrEqual(1_025);
    const [, used] = /used_memory:(\d+)/.exec(await client.info('memory')) ?? [];
    expect(Number(used)).toBeLessThan(10_000_000);

    const { link } = await openTestLink(server.url, patient);
    const account = { id: randomUUID(), windows: toWindows({ perMinute: 60, perDay: 1_000 }) };
    const nameOf = (id: string): string => `animals:test:{${id}}`;
    const ledgers = [1, 2].map(() => shareLedger(link, createMemoryLedger(), nameOf));
    const outcomes: string[] = [];
    for (let i = 0; i < 120; i++) outcomes.push((await ledgers[i % 2]?.admit(account, 1))?.outcome ?? '');
    expect(outcomes.filter((outcome) => outcome === 'admitted')).toHaveLength(60);

    for (const one of [link, queries]) one.close();
    client.disconnect();
    await server.close();
  });

  it('do not affect the limits when their connection breaks', async () => {
    const server = await startRedisServer();
    const database = await createDatabase();
    const env = { DATABASE_URL: database.url, REDIS_URL: server.url };
    const instances = [await startGateway('server', env), await startGateway('server', env)];
    const { key } = await (instances[0] as Gateway).createKey({ plan: 'free' });
    const client = await connectRedis(server.url);
    let broken = 0;
    const breakConnections = async (): Promise<void> => {
      const clients = String(await client.client('LIST')).split('\n');
      for (const one of clients.filter((line) => /cmd=[gs]et /.test(line)))
        broken += Number(await client.client('KILL', 'ID', /id=(\d+)/.exec(one)?.[1] ?? ''));
    };
    const statuses: number[] = [];
    for (let i = 0; i < 120; i++) {
      const query = `{ q${i}: pets(limit: 1) { id } }`;
      const sha256Hash = createHash('sha256').update(query).digest('hex');
      const body = JSON.stringify({ query, extensions: { persistedQuery: { version: 1, sha256Hash } } });
      const headers = { Authorization: `Bearer ${key}`, 'Content-Type': 'application/json' };
      const response = await instances[i % 2]?.fetch('/graphql', { method: 'POST', headers, body });
      statuses.push(response?.status ?? 0);
      await response?.text();
      if (i % 5 === 0) await breakConnections();
    }
    expect(broken).toBeGreaterThan(1);
    expect(statuses).toEqual([...Array<number>(60).fill(200), ...Array<number>(60).fill(429)]);

    client.disconnect();
    await Promise.all(instances.map((instance) => instance.close()));
    await server.close();
    await database.drop();
  });
});
