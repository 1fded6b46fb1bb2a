// PostgreSQL waits for a synchronous standby that does not exist: reads continue, additions get 503.
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { describeWith } from '../support/installed-program.js';
import {
  openPostgresServers,
  setParameter,
  type InstalledPostgres,
  type PostgresServers,
} from '../support/installed-postgres.js';
import { createUnlimitedKey, judge, secondsUntilBack, startLoad } from '../support/load.js';
import { makePlace, type Place, type Program } from '../support/process.js';
import { runSql } from '../support/sql.js';

const LOST_MS = process.env.DRILL ? 60_000 : 8_000;
const POOL = 10;
const SESSIONS = `SELECT count(*)::int AS count FROM pg_stat_activity WHERE application_name LIKE '%animal-store-gateway'`;

describeWith('postgres', 'a lost synchronous standby', () => {
  let servers: PostgresServers;
  let primary: InstalledPostgres;
  let place: Place;
  let program: Program;

  beforeAll(async () => {
    servers = await openPostgresServers();
    primary = await servers.primary();
    place = await makePlace();
    program = await place.start({
      PORT: '0',
      DATABASE_URL: primary.url,
      DATABASE_POOL: String(POOL),
      LOG_LEVEL: 'fatal',
    });
  });
  afterAll(async () => {
    await place.close();
    await servers.close();
  });

  async function readUsage(key: string): Promise<number> {
    return (await program.fetch('/v1/key/usage', { headers: { Authorization: `Bearer ${key}` } })).status;
  }

  it('stops additions with 503, but neither reads nor the server', async () => {
    const key = await createUnlimitedKey(place, primary.url);
    const load = startLoad({ url: program.url, key, readers: 8, writers: 16 });
    await sleep(1_000);
    await setParameter(primary.url, 'synchronous_standby_names', 'lost');
    const lostAt = performance.now();
    let most = 0;
    const reports: Promise<number>[] = [];
    while (performance.now() < lostAt + LOST_MS) {
      if (reports.length < (performance.now() - lostAt) / 2_000) reports.push(readUsage(key));
      const [row] = await runSql<{ count: number }>(primary.url, SESSIONS);
      most = Math.max(most, row?.count ?? 0);
      await sleep(100);
    }
    await setParameter(primary.url, 'synchronous_standby_names', '');
    const repairedAt = performance.now();
    await sleep(2_000);
    await load.stop();

    const outcome = await judge('standby-lost', load, primary.url);
    const back = secondsUntilBack(load, repairedAt);
    console.log(`back after ${back} s; at most ${most} sessions with a pool of ${POOL}`);
    expect(outcome).toMatchObject({ lost: 0, duplicated: 0 });
    expect(Object.keys(outcome.reads)).toEqual(['200']);
    expect(new Set(await Promise.all(reports))).toEqual(new Set([200]));
    expect(Object.keys(outcome.adds)).toEqual(['200', '201', '503']);
    // The program gives an addition up before three seconds; a busy machine tells its client later.
    expect(outcome.longestAddMs).toBeLessThan(5_000);
    expect(most).toBeLessThanOrEqual(POOL + 3);
    expect(back).toBeLessThan(2);
  });

  it('counts each request once meanwhile', async () => {
    const key = await createUnlimitedKey(place, primary.url);
    await setParameter(primary.url, 'synchronous_standby_names', 'lost');
    for (let n = 0; n < 3; n++) await program.fetch('/v1/pets', { headers: { Authorization: `Bearer ${key}` } });
    // Enough for two writes.
    await sleep(13_000);
    const text = `SELECT requests::int FROM usage WHERE key_id = (SELECT id FROM api_keys ORDER BY created_at DESC LIMIT 1)`;
    expect(await runSql(primary.url, text)).toEqual([{ requests: 3 }]);
    await setParameter(primary.url, 'synchronous_standby_names', '');
  });
});
