import { pino } from 'pino';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { Database } from '../../src/store/database.js';
import { migrate } from '../../src/store/migrate.js';
import { createPgDatabase } from '../../src/store/pg-database.js';
import { openPgliteDatabase } from '../../src/store/pglite-database.js';
import { createCallCounter, type CallCounter, type CallCounterOptions } from '../../src/store/call-counter.js';
import type { DeprecatedCaller, DeprecatedCallers } from '../../src/access/deprecated-calls.js';
import { createPostgresDeprecatedCalls } from '../../src/store/postgres-deprecated-calls.js';
import { createDatabase } from '../support/gateway.js';

const NEVER_MS = 3_600_000;

describe.each(['PGlite', 'a PostgreSQL server'])('the counter of deprecated calls on %s', (kind) => {
  let database: Database;
  let callers: DeprecatedCallers;
  let logged: { msg: string; calls?: number }[];
  let drop: (() => Promise<void>) | undefined;

  beforeAll(async () => {
    if (kind === 'PGlite') database = await openPgliteDatabase();
    else {
      const created = await createDatabase();
      drop = created.drop;
      database = createPgDatabase({ url: created.url, pool: 4, prepare: true });
    }
    await migrate(database);
    callers = createPostgresDeprecatedCalls(database);
  });
  beforeEach(async () => {
    logged = [];
    await database.query({ name: '', text: 'DELETE FROM deprecated_calls' }, []);
  });
  afterAll(async () => {
    await database.close();
    await drop?.();
  });

  function createCounter(options: Partial<CallCounterOptions> = {}): CallCounter {
    const log = pino({}, { write: (line: string) => void logged.push(JSON.parse(line) as (typeof logged)[number]) });
    const store = createPostgresDeprecatedCalls(database);
    return createCallCounter({ write: (counts) => store.add(counts), log, flushEveryMs: NEVER_MS, ...options });
  }

  function count(counter: CallCounter, client: string | undefined, keyId = 'key_1', times = 1): void {
    for (let i = 0; i < times; i++) {
      counter.count({ keyId, client, through: 'graphql', coordinate: 'Query.pet' });
    }
  }

  async function listCounts(keyId = 'key_1'): Promise<[DeprecatedCaller['client'], number][]> {
    const list = (await callers.list()).filter((caller) => caller.keyId === keyId);
    return list.map(({ client, calls }) => [client, calls]);
  }

  async function sum(): Promise<number> {
    return (await callers.list()).reduce((total, { calls }) => total + calls, 0);
  }

  it('adds up exactly over several instances that write the same rows at once', async () => {
    const instances = Array.from({ length: 4 }, () => createCounter());
    await Promise.all(
      instances.map(async (counter, instance) => {
        for (let round = 0; round < 10; round++) {
          for (let n = 0; n < 40; n++) count(counter, `client ${(n * (instance + 1)) % 20}`, `key_${n % 7}`);
          await counter.flush();
        }
      }),
    );
    expect(await sum()).toBe(4 * 10 * 40);
  });

  it('stores fifty names per key, always counts known names, and counts all others together', async () => {
    const counter = createCounter();
    count(counter, 'known', 'key_1');
    await counter.flush();
    for (let n = 0; n < 60; n++) count(counter, `name ${n}`);
    await counter.flush();
    count(counter, 'known');
    for (let n = 60; n < 400; n++) count(counter, `name ${n}`);
    count(counter, undefined);
    count(counter, '(withheld)');
    count(counter, 'elsewhere', 'key_2');
    await counter.flush();

    const counts = new Map(await listCounts());
    expect(counts.size).toBe(50 + 3);
    expect(counts.get('known')).toBe(2);
    expect(counts.get('(other)')).toBe(400 - 49);
    expect(counts.get(null)).toBe(1);
    expect(counts.get('(withheld)')).toBe(1);
    expect(await listCounts('key_2')).toEqual([['elsewhere', 1]]);
    expect(await sum()).toBe(400 + 5);
  });

  it('keeps counts that it cannot write, and retries', async () => {
    let isAway = true;
    const store = createPostgresDeprecatedCalls(database);
    const counter = createCounter({
      flushEveryMs: 20,
      write: (counts) => (isAway ? Promise.reject(new Error('away')) : store.add(counts)),
    });
    count(counter, 'a', 'key_1', 3);
    await expect.poll(() => logged).toHaveLength(1);
    count(counter, 'a', 'key_1', 4);
    count(counter, 'b', 'key_1', 5);
    await counter.flush();
    expect(await sum()).toBe(0);

    isAway = false;
    await expect
      .poll(() => listCounts())
      .toEqual(
        expect.arrayContaining([
          ['a', 7],
          ['b', 5],
        ]),
      );
    expect(logged.map(({ msg }) => msg)).toEqual([expect.stringContaining('cannot be written down')]);
    await counter.close();
    expect(logged).toHaveLength(1);
  });

  it('keeps no more than its capacity meanwhile, and reports what it did not count', async () => {
    let isAway = true;
    const store = createPostgresDeprecatedCalls(database);
    const counter = createCounter({
      capacity: 10,
      write: (counts) => (isAway ? Promise.reject(new Error('away')) : store.add(counts)),
    });
    for (let n = 0; n < 1_000; n++) count(counter, `name ${n}`, `key_${n % 30}`);
    await counter.flush();
    isAway = false;
    await counter.flush();

    const list = await callers.list();
    expect(list.filter(({ client }) => client !== '(other)')).toHaveLength(10);
    expect(list.length).toBeLessThanOrEqual(20);
    const lost = logged.find(({ msg }) => msg.includes('too many'))?.calls ?? 0;
    expect(lost).toBeGreaterThan(0);
    expect((await sum()) + lost).toBe(1_000);
  });

  it('writes the remaining counts when it closes, and reports if it cannot', async () => {
    const counter = createCounter();
    count(counter, 'a', 'key_1', 2);
    await counter.close();
    expect(await listCounts()).toEqual([['a', 2]]);

    const cut = createCounter({ write: () => Promise.reject(new Error('away')) });
    count(cut, 'a', 'key_1', 3);
    await cut.close();
    expect(logged.at(-1)).toMatchObject({ msg: expect.stringContaining('forgotten'), calls: 3 });
  });

  it('writes a thousand counts early, in one statement', async () => {
    const sizes: number[] = [];
    const store = createPostgresDeprecatedCalls(database);
    const counter = createCounter({
      write(counts) {
        sizes.push(counts.length);
        return store.add(counts);
      },
    });
    for (let n = 0; n < 1_000; n++) count(counter, 'a', `key_${n}`);
    await expect.poll(sum).toBe(1_000);
    expect(sizes).toEqual([1_000]);
    count(counter, 'a');
    await counter.flush();
    expect(sizes).toEqual([1_000, 1]);
  });
});
