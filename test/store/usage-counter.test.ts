import { pino } from 'pino';
import { afterAll, beforeAll, beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest';
import { startApp } from '../../src/app.js';
import { loadConfig } from '../../src/config.js';
import type { Database } from '../../src/store/database.js';
import { migrate } from '../../src/store/migrate.js';
import { createPgDatabase } from '../../src/store/pg-database.js';
import { openPgliteDatabase } from '../../src/store/embedded-store.js';
import type { Usage } from '../../src/access/usage.js';
import { createPostgresKeyStore } from '../../src/store/postgres-key-store.js';
import { createPostgresUsage, type PostgresUsage } from '../../src/store/postgres-usage.js';
import { deleteOldRows } from '../../src/store/pruning.js';
import { createUsageCounter, type UsageCounterOptions } from '../../src/store/usage-counter.js';
import { createDatabase } from '../support/gateway.js';
import { runSql } from '../support/sql.js';

const NEVER_MS = 3_600_000;

describe.each(['PGlite', 'a PostgreSQL server'])('the counter of usage on %s', (kind) => {
  let database: Database;
  let usage: PostgresUsage;
  let logged: { msg: string; requests?: number }[];
  let drop: (() => Promise<void>) | undefined;

  beforeAll(async () => {
    if (kind === 'PGlite') database = await openPgliteDatabase('memory://');
    else {
      const created = await createDatabase();
      drop = created.drop;
      database = createPgDatabase({ url: created.url, pool: 4, prepare: true });
    }
    await migrate(database);
    usage = createPostgresUsage(database);
  });
  beforeEach(async () => {
    logged = [];
    await database.query({ name: '', text: 'DELETE FROM usage' }, []);
  });
  afterAll(async () => {
    await database.close();
    await drop?.();
  });

  function createCounter(options: Partial<UsageCounterOptions> = {}) {
    const log = pino({}, { write: (line: string) => void logged.push(JSON.parse(line) as (typeof logged)[number]) });
    return createUsageCounter({ write: (counts) => usage.add(counts), log, flushEveryMs: NEVER_MS, ...options });
  }

  function count(
    counter: ReturnType<typeof createUsageCounter>,
    client: string | undefined,
    keyId = 'key_1',
    times = 1,
  ): void {
    for (let i = 0; i < times; i++) {
      counter.count({ keyId, client, operation: 'GET /v1/pets', deprecated: '', cost: 2, outcome: 'ok' });
    }
  }

  async function list(keyId?: string): Promise<readonly Usage[]> {
    const all = await usage.list({ since: new Date(0), limit: 10_000 });
    return all.filter((row) => keyId === undefined || row.keyId === keyId);
  }

  async function listCounts(keyId = 'key_1'): Promise<[string | undefined, number][]> {
    return (await list(keyId)).map(({ client, requests }) => [client, requests]);
  }

  async function sum(): Promise<number> {
    return (await list()).reduce((total, { requests }) => total + requests, 0);
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

  it('stores fifty names per key and day, counts known names, and counts all others together', async () => {
    const counter = createCounter();
    count(counter, 'known', 'key_1');
    await counter.flush();
    for (let n = 0; n < 60; n++) count(counter, `name ${n}`);
    await counter.flush();
    count(counter, 'known');
    for (let n = 60; n < 400; n++) count(counter, `name ${n}`);
    count(counter, 'elsewhere', 'key_2');
    await counter.flush();

    const counts = new Map(await listCounts());
    expect(counts.size).toBe(50 + 1);
    expect(counts.get('known')).toBe(2);
    expect(counts.get('(other)')).toBe(400 - 49);
    expect(await listCounts('key_2')).toEqual([['elsewhere', 1]]);
    expect(await sum()).toBe(400 + 3);
  });

  it('keeps memory and rows bounded, whatever clients call themselves and their operations', async () => {
    const sizes: number[] = [];
    const counter = createCounter({
      write(counts) {
        sizes.push(counts.length);
        return usage.add(counts);
      },
    });
    for (let n = 0; n < 5_000; n++) {
      const client = n % 2 === 0 ? '(other)' : `name ${n}`;
      counter.count({ keyId: 'key_1', client, operation: `Q${n}`, deprecated: '', cost: 1, outcome: 'error' });
    }
    await counter.flush();
    expect(sizes).toEqual([51]);
    const rows = await usage.list({ since: new Date(0), limit: 1_000 });
    expect(rows).toHaveLength(51);
    expect(rows[0]).toMatchObject({ client: '(other)', operation: '(other)', requests: 4_950, errors: 4_950 });
  });

  it('adds up the days that a report asks for, and forgets days after a year', async () => {
    const DAY = 86_400_000;
    const today = new Date().setUTCHours(0, 0, 0, 0);
    const at = (day: number, client: string, cost: number) => ({
      ...{ keyId: 'key_1', client, operation: 'Q', deprecated: '', requests: 1, cost, errors: 0, refused: 0 },
      ...{ day, lastAt: day + 3_600_000 },
    });
    await usage.add([at(today, 'a', 1), at(today, 'b', 2), at(today - DAY, 'a', 4), at(today - 400 * DAY, 'a', 8)]);
    await usage.add([at(today, 'a', 16)]);
    const costs = async (since: number): Promise<unknown[]> =>
      (await usage.list({ since: new Date(since), limit: 10 })).map(({ client, cost }) => [client, cost]);
    expect(await costs(today + DAY - 1)).toEqual([
      ['a', 17],
      ['b', 2],
    ]);
    expect(await costs(today - 1)).toEqual([
      ['a', 21],
      ['b', 2],
    ]);
    expect((await costs(0))[0]).toEqual(['a', 29]);
    await Promise.all([deleteOldRows(database, 'usage', 366), deleteOldRows(database, 'usage', 366)]);
    expect((await costs(0))[0]).toEqual(['a', 21]);
  });

  it('keeps counts that it cannot write, and retries', async () => {
    let isAway = true;
    const counter = createCounter({
      flushEveryMs: 20,
      write: (counts) => (isAway ? Promise.reject(new Error('away')) : usage.add(counts)),
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
    expect(logged.map(({ msg }) => msg)).toEqual([expect.stringContaining('key usage cannot be stored yet')]);
    await counter.close();
    expect(logged).toHaveLength(1);
  });

  it('keeps no more than its capacity meanwhile, and reports what it did not count', async () => {
    let isAway = true;
    const counter = createCounter({
      capacity: 10,
      write: (counts) => (isAway ? Promise.reject(new Error('away')) : usage.add(counts)),
    });
    for (let n = 0; n < 1_000; n++) count(counter, `name ${n}`, `key_${n % 30}`);
    await counter.flush();
    isAway = false;
    await counter.flush();

    expect(await list()).toHaveLength(10);
    expect(counter.lost()).toBeGreaterThan(0);
    expect((await sum()) + counter.lost()).toBe(1_000);
  });

  it('writes the remaining counts when it closes, and reports if it cannot', async () => {
    const counter = createCounter();
    count(counter, 'a', 'key_1', 2);
    await counter.close();
    expect(await listCounts()).toEqual([['a', 2]]);

    const cut = createCounter({ write: () => Promise.reject(new Error('away')) });
    count(cut, 'a', 'key_1', 3);
    await cut.close();
    expect(logged.at(-1)).toMatchObject({
      msg: expect.stringContaining('key usage could not be stored and is lost'),
      requests: 3,
    });
  });

  it('writes a thousand counts early, in one statement', async () => {
    const sizes: number[] = [];
    const counter = createCounter({
      write(counts) {
        sizes.push(counts.length);
        return usage.add(counts);
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

it('usage is written at a shutdown while expired rows are still being deleted', async () => {
  const { url } = await createDatabase();
  let endPruning: ((rows: []) => void) | undefined;
  const pruning = new Promise<[]>((end) => (endPruning = end));
  const isPruned = vi.fn();
  const config = loadConfig({ PORT: '0', NODE_ENV: 'test', DATABASE_URL: url });
  // Makes the pause before the first pruning zero.
  const random = vi.spyOn(Math, 'random').mockReturnValue(-1);
  onTestFinished(() => random.mockRestore());
  const app = await startApp(config, pino({ level: 'silent' }), {
    decorateDatabase: (opened) => ({
      ...opened,
      query: (statement, values) =>
        statement.name.startsWith('prune-') ? (isPruned(), pruning) : opened.query(statement, values),
    }),
  });
  await expect.poll(() => isPruned.mock.calls.length).toBe(1);
  random.mockRestore();
  const database = createPgDatabase({ url, pool: 1, prepare: true });
  const { key } = await createPostgresKeyStore(database).create({ plan: 'free' });
  await database.close();
  const use = () => fetch(`${app.url}/v1/pets`, { headers: { Authorization: `Bearer ${key}` } });
  const readUsage = () => runSql(url, 'SELECT requests FROM usage');
  await use();
  await expect.poll(readUsage).toEqual([{ requests: '1' }]);
  await use();
  const closing = app.close();
  // Before the next write, five seconds after the last.
  await expect.poll(readUsage, { timeout: 4_000 }).toEqual([{ requests: '2' }]);
  endPruning?.([]);
  await closing;
});

it('the holder of a key sees its usage although the latest counts cannot be written', async () => {
  const { url } = await createDatabase();
  let endWriting: ((rows: []) => void) | undefined;
  const writing = new Promise<[]>((end) => (endWriting = end));
  let database: Database | undefined;
  const app = await startApp(
    loadConfig({ PORT: '0', NODE_ENV: 'test', DATABASE_URL: url }),
    pino({ level: 'silent' }),
    {
      decorateDatabase: (opened) =>
        (database = {
          ...opened,
          query: (statement, values) => (statement.name === 'add-usage' ? writing : opened.query(statement, values)),
        }),
    },
  );
  const { key } = await createPostgresKeyStore(database as unknown as Database).create({ plan: 'free' });
  const ask = (path: string) => fetch(`${app.url}/v1/${path}`, { headers: { Authorization: `Bearer ${key}` } });
  await ask('pets');
  const answer = await ask('key/usage');
  expect([answer.status, await answer.json()]).toEqual([200, expect.objectContaining({ rows: [] })]);
  endWriting?.([]);
  await app.close();
}, 20_000);
