import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Redis } from 'ioredis';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { Account, Admission, Ledger } from '../../src/access/ledger.js';
import type { MaybePromise } from '../../src/access/maybe-promise.js';
import { createMemoryLedger } from '../../src/access/memory-ledger.js';
import { toWindows } from '../../src/access/plans.js';
import type { RedisClient } from '../../src/redis/client.js';
import { shareLedger } from '../../src/redis/ledger.js';
import { connectRedis, describeWithRedis, openTestRedis, redisUrl } from '../support/redis.js';

interface Bans {
  readonly banAfter?: number;
  readonly banSeconds?: number;
}

/** A ledger whose time can be advanced. */
interface Kind {
  create(bans: Bans): MaybePromise<void>;
  ask(account: Account, cost: number): MaybePromise<Admission>;
  advance(account: Account, milliseconds: number): MaybePromise<void>;
  close(): void;
}

function memory(): Kind {
  let now = Date.now();
  let ledger: Ledger;
  return {
    create(bans) {
      now = Date.now();
      ledger = createMemoryLedger({ now: () => now, ...bans });
    },
    ask: (account, cost) => ledger.admit(account, cost),
    advance(_, milliseconds) {
      now += milliseconds;
    },
    close: () => undefined,
  };
}

const nameOf = (id: string): string => `animals:test:{${id}}`;

/** Moves all stored times of an account into the past, which is equivalent to waiting. */
const AGE = `
for i = 3, #KEYS do
  if redis.call('EXISTS', KEYS[i]) == 1 then redis.call('HINCRBY', KEYS[i], 'closes', -ARGV[1]) end
end
if redis.call('EXISTS', KEYS[1]) == 1 then redis.call('SET', KEYS[1], redis.call('GET', KEYS[1]) - ARGV[1], 'KEEPTTL') end
for i, time in ipairs(redis.call('LRANGE', KEYS[2], 0, -1)) do redis.call('LSET', KEYS[2], i - 1, time - ARGV[1]) end
`;

/** Two processes that share counts and are used in turn. */
function redis(): Kind {
  let clients: RedisClient[] = [];
  let inspector: Redis | undefined;
  let ledgers: Ledger[] = [];
  let options: Bans = {};
  let asked = 0;
  const renew = (): void => {
    ledgers = clients.map((client) => shareLedger(client, createMemoryLedger(options), nameOf, options));
  };
  return {
    async create(bans) {
      inspector ??= await connectRedis(redisUrl());
      if (clients.length === 0) {
        const opened = [openTestRedis(redisUrl(), LONG_TIMEOUT), openTestRedis(redisUrl(), LONG_TIMEOUT)];
        clients = (await Promise.all(opened)).map(({ client }) => client);
      }
      options = bans;
      renew();
    },
    ask: (account, cost) => (ledgers[asked++ % ledgers.length] as Ledger).admit(account, cost),
    async advance({ id }, milliseconds) {
      const names = ['ban', 'refused', 'minute', 'day'].map((part) => `${nameOf(id)}:${part}`);
      await inspector?.eval(AGE, names.length, ...names, milliseconds);
      // Their local copies still have the old times.
      renew();
    },
    close() {
      for (const client of clients) client.close();
      inspector?.disconnect();
    },
  };
}

/** Long enough for a busy machine. */
const LONG_TIMEOUT = { timeoutMs: 10_000 };

const KINDS = [
  { name: 'in memory', make: memory, suite: describe },
  { name: 'in Redis', make: redis, suite: describeWithRedis },
];

describe.each(KINDS)('a ledger', ({ name, make, suite }) => {
  suite(name, () => {
    let kind: Kind;
    beforeAll(() => {
      kind = make();
    });
    beforeEach(() => kind.create({}));
    afterAll(() => kind.close());

    const account = (perMinute: number, perDay: number): Account => ({
      id: randomUUID(),
      windows: toWindows({ perMinute, perDay }),
    });
    const left = ({ windows }: Admission): number[] => windows.map(({ remaining }) => remaining);
    const ask = async (key: Account, cost: number): Promise<Admission> => kind.ask(key, cost);
    const outcomes = async (key: Account, ...costs: number[]): Promise<string[]> => {
      const seen: string[] = [];
      for (const cost of costs) seen.push((await ask(key, cost)).outcome);
      return seen;
    };

    it('opens no window for free requests', async () => {
      const key = account(60, 1_000);
      await ask(key, 0);
      await kind.advance(key, 30_000);
      expect(left(await ask(key, 1))).toEqual([59, 999]);
      await kind.advance(key, 40_000);
      expect(left(await ask(key, 0))).toEqual([59, 999]);
    });

    it('counts in independent fixed windows', async () => {
      const key = account(60, 1_000);
      await ask(key, 10);
      await kind.advance(key, 40_000);
      expect(left(await ask(key, 1))).toEqual([49, 989]);
      await kind.advance(key, 20_000);
      expect(left(await ask(key, 0))).toEqual([60, 989]);
      expect(left(await ask(key, 1))).toEqual([59, 988]);
      await kind.advance(key, 86_400_000);
      expect(left(await ask(key, 1))).toEqual([59, 999]);
    });

    it('always states the same end of a window, and the wait in whole seconds', async () => {
      const key = account(5, 100);
      const first = await ask(key, 5);
      await kind.advance(key, 10_000);
      const refused = await ask(key, 1);
      expect(refused.outcome).toBe('refused');
      expect((refused as { retryAfter: number }).retryAfter).toBeGreaterThanOrEqual(40);
      expect((refused as { retryAfter: number }).retryAfter).toBeLessThanOrEqual(50);
      expect(first.windows.map(({ seconds, limit }) => [seconds, limit])).toEqual([
        [60, 5],
        [86_400, 100],
      ]);
      expect(refused.windows.map(({ resetAt }) => resetAt)).toEqual((await ask(key, 0)).windows.map((w) => w.resetAt));
    });

    it.each([
      ['the minute', 5, 100],
      ['the day', 100, 5],
    ])('charges neither window if %s refuses', async (_, perMinute, perDay) => {
      const key = account(perMinute, perDay);
      const before = left(await ask(key, 3));
      for (let i = 0; i < 3; i++) {
        const refused = await ask(key, 3);
        expect([refused.outcome, left(refused)]).toEqual(['refused', before]);
      }
      expect(left(await ask(key, 2))).toEqual(before.map((remaining) => remaining - 2));
      expect((await ask(key, 1)).outcome).toBe('refused');
    });

    it('never admits, charges or bans for a cost above the limit of a window', async () => {
      await kind.create({ banAfter: 0, banSeconds: 60 });
      const key = account(10, 100);
      for (let i = 0; i < 5; i++) expect(await ask(key, 11)).toMatchObject({ outcome: 'too-large', limit: 10 });
      expect(left(await ask(key, 10))).toEqual([0, 90]);
      expect((await ask(key, 11)).outcome).toBe('too-large');
    });

    it('bans for all requests with the first refusal beyond BAN_AFTER within a minute', async () => {
      await kind.create({ banAfter: 3, banSeconds: 300 });
      const key = account(1, 100);
      expect(await outcomes(key, 1, 1, 1, 1, 1)).toEqual(['admitted', 'refused', 'refused', 'refused', 'banned']);
      expect(await outcomes(key, 0, 1, 50)).toEqual(['banned', 'banned', 'banned']);
      await kind.advance(key, 100_000);
      const banned = (await ask(key, 1)) as { outcome: string; retryAfter: number };
      expect(banned.outcome).toBe('banned');
      expect(banned.retryAfter).toBeGreaterThan(180);
      expect(banned.retryAfter).toBeLessThanOrEqual(200);
      await kind.advance(key, 200_000);
      expect(await outcomes(key, 1, 1, 1, 1, 1)).toEqual(['admitted', 'refused', 'refused', 'refused', 'banned']);
    });

    it('lifts only bans that began before the key was unbanned, and keeps the counts', async () => {
      await kind.create({ banAfter: 1, banSeconds: 300 });
      const key = account(1, 100);
      const before = Date.now();
      expect(await outcomes(key, 1, 1, 1)).toEqual(['admitted', 'refused', 'banned']);
      expect((await ask({ ...key, unbannedAt: before - 60_000 }, 1)).outcome).toBe('banned');
      const unbanned = { ...key, unbannedAt: Date.now() + 1_000 };
      for (let i = 0; i < 2; i++) expect(await ask(unbanned, 0)).toMatchObject({ outcome: 'admitted' });
      expect(left(await ask(unbanned, 0))).toEqual([0, 99]);
      expect((await ask(unbanned, 1)).outcome).toBe('refused');
    });

    it('counts refusals in a sliding minute, and no older ones', async () => {
      await kind.create({ banAfter: 2, banSeconds: 300 });
      const key = account(1, 1);
      expect(await outcomes(key, 1, 1)).toEqual(['admitted', 'refused']);
      await kind.advance(key, 30_000);
      expect(await outcomes(key, 1)).toEqual(['refused']);
      await kind.advance(key, 31_000);
      expect(await outcomes(key, 1)).toEqual(['refused']);
      await kind.advance(key, 5_000);
      expect(await outcomes(key, 1)).toEqual(['banned']);
    });

    it('bans with the first refusal if BAN_AFTER is 0', async () => {
      await kind.create({ banAfter: 0, banSeconds: 300 });
      expect(await outcomes(account(1, 1), 1, 1, 0)).toEqual(['admitted', 'banned', 'banned']);
    });

    it('counts each account separately', async () => {
      const [mine, yours] = [account(1, 1), account(1, 1)];
      expect(await outcomes(mine, 1, 1)).toEqual(['admitted', 'refused']);
      expect(await outcomes(yours, 1)).toEqual(['admitted']);
    });

    it('admits exactly the limit of concurrent requests, and reports a different remainder to each', async () => {
      const key = account(50, 1_000);
      const all = await Promise.all(Array.from({ length: 120 }, () => ask(key, 1)));
      const admitted = all.filter(({ outcome }) => outcome === 'admitted').map((admission) => left(admission)[0]);
      expect(admitted.sort((a = 0, b = 0) => a - b)).toEqual(Array.from({ length: 50 }, (_, i) => i));
    });
  });
});

/** A Redis that never replies in time, and what it was asked. */
function fakeRedis() {
  const asked: string[] = [];
  const redis = {
    asked,
    isUp: true,
    onUp: (listener: () => unknown): void => void (redis.up = listener),
    up: (): unknown => undefined,
    defineScript: () => async (keys: string[]) => {
      asked.push(/{(.*)}/.exec(keys[0] as string)?.[1] as string);
      return Promise.resolve(undefined);
    },
  };
  return redis;
}

describe('the end of an outage of Redis', () => {
  it('asks once about each account with an open window', async () => {
    const client = fakeRedis();
    const ledger = shareLedger(client as unknown as RedisClient, createMemoryLedger(), nameOf);
    for (const [id, seconds] of [
      ['closed', 0.001],
      ['a', 60],
      ['b', 60],
    ] as const)
      await ledger.admit({ id, windows: [{ name: 'minute', seconds, limit: 60 }] }, 1);
    await sleep(10);
    client.asked.length = 0;
    // It is interrupted at once.
    await Promise.all([client.up(), client.up()]);
    expect(client.asked.sort()).toEqual(['a', 'b', 'b']);
  });
});

describe('a banned account', () => {
  it('asks Redis once a second, however many requests it sends', async () => {
    const client = fakeRedis();
    const bans = { banAfter: 0, banSeconds: 60 };
    const ledger = shareLedger(client as unknown as RedisClient, createMemoryLedger(bans), nameOf, bans);
    const account: Account = { id: 'a', windows: [{ name: 'minute', seconds: 60, limit: 1 }] };
    for (let i = 0; i < 2; i++) await ledger.admit(account, 1);
    client.asked.length = 0;
    for (let i = 0; i < 10; i++) expect(ledger.findBan(account)).toMatchObject({ outcome: 'banned' });
    expect(client.asked).toHaveLength(1);
    await sleep(1_100);
    ledger.findBan(account);
    expect(client.asked).toHaveLength(2);
  });
});

describeWithRedis('a window that Redis has closed a little earlier', () => {
  it('leaves nothing to the next one', async () => {
    const { client } = await openTestRedis(redisUrl(), LONG_TIMEOUT);
    const inspector = await connectRedis(redisUrl());
    const ledger = shareLedger(client, createMemoryLedger(), nameOf);
    const account: Account = { id: randomUUID(), windows: [{ name: 'minute', seconds: 3, limit: 60 }] };
    await ledger.admit(account, 10);
    await inspector.hincrby(`${nameOf(account.id)}:minute`, 'closes', -800);
    await sleep(2_300);
    for (const remaining of [59, 58]) expect((await ledger.admit(account, 1)).windows).toMatchObject([{ remaining }]);
    client.close();
    inspector.disconnect();
  });
});
