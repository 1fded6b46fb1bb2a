import { createHash, randomUUID } from 'node:crypto';
import { expect, it } from 'vitest';
import { createMemoryLedger } from '../../src/access/memory-ledger.js';
import { toWindows } from '../../src/access/plans.js';
import { createRedisLedger } from '../../src/redis/redis-ledger.js';
import { createRedisQueryCache } from '../../src/redis/redis-query-cache.js';
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
    const ledgers = [1, 2].map(() => createRedisLedger({ link, nameOf, local: createMemoryLedger() }));
    const outcomes: string[] = [];
    for (let i = 0; i < 120; i++) outcomes.push((await ledgers[i % 2]?.admit(account, 1))?.outcome ?? '');
    expect(outcomes.filter((outcome) => outcome === 'admitted')).toHaveLength(60);

    for (const one of [link, queries]) one.close();
    client.disconnect();
    await server.close();
  });
});
