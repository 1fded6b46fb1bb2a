// kill -9 of the PostgreSQL primary, promotion of its standby: two hosts in DATABASE_URL, no balancer.
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
import { makePlace, until, type Place, type Program } from '../support/process.js';
import { runSql } from '../support/sql.js';

const WITHOUT_PRIMARY_MS = process.env.DRILL ? 10_000 : 3_000;

describeWith('pg_basebackup', 'two hosts in DATABASE_URL', () => {
  let servers: PostgresServers;
  let primary: InstalledPostgres;
  let standby: InstalledPostgres;
  let place: Place;
  let program: Program;

  beforeAll(async () => {
    servers = await openPostgresServers();
    primary = await servers.primary();
    standby = await servers.standby(primary, 'standby');
    await setParameter(primary.url, 'synchronous_standby_names', 'standby');
    await until('the standby is synchronous', async () => {
      const rows = await runSql(primary.url, "SELECT FROM pg_stat_replication WHERE sync_state = 'sync'");
      return rows.length === 1;
    });
    place = await makePlace();
    const hosts = `127.0.0.1:${primary.port},127.0.0.1:${standby.port}`;
    program = await place.start({
      PORT: '0',
      DATABASE_URL: `postgres://postgres@${hosts}/postgres?target_session_attrs=read-write`,
      LOG_LEVEL: 'fatal',
    });
  });
  afterAll(async () => {
    await place.close();
    await servers.close();
  });

  it('lose no addition and no read when the primary is killed', async () => {
    const key = await createUnlimitedKey(place, primary.url);
    const load = startLoad({ url: program.url, key });
    await sleep(2_000);
    await primary.kill();
    await sleep(WITHOUT_PRIMARY_MS);
    const promotedAt = performance.now();
    await standby.promote();
    await sleep(3_000);
    await load.stop();

    const outcome = await judge('failover', load, standby.url);
    const back = secondsUntilBack(load, promotedAt);
    console.log(`additions work ${back} s after the promotion began`);
    expect(outcome).toMatchObject({ lost: 0, duplicated: 0 });
    expect(Object.keys(outcome.reads)).toEqual(['200']);
    expect(Object.keys(outcome.adds)).toEqual(['200', '201', '503']);
    expect(back).toBeLessThan(3);
  });
});
