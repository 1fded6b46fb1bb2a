// A million expired idempotency keys are pruned while clients add animals with new ones.
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { deleteOldRows } from '../../src/store/pruning.js';
import { createPgDatabase } from '../../src/store/pg-database.js';
import { openPostgresServers, type PostgresServers } from '../support/installed-postgres.js';
import { describeWith } from '../support/installed-program.js';
import { createUnlimitedKey, judge, startLoad } from '../support/load.js';
import { addMillionOldIdempotencyKeys } from '../support/million.js';
import { makePlace, type Place, type Program } from '../support/process.js';
import { runSql } from '../support/sql.js';

describeWith('postgres', 'a million expired idempotency keys', () => {
  let servers: PostgresServers;
  let databaseUrl: string;
  let place: Place;
  let program: Program;

  beforeAll(async () => {
    servers = await openPostgresServers();
    ({ url: databaseUrl } = await servers.primary());
    place = await makePlace();
    program = await place.start({ PORT: '0', DATABASE_URL: databaseUrl, LOG_LEVEL: 'fatal' });
    await addMillionOldIdempotencyKeys(databaseUrl);
  });
  afterAll(async () => {
    await place.close();
    await servers.close();
  });

  it('are pruned faster than clients add new ones', async () => {
    const key = await createUnlimitedKey(place, databaseUrl);
    const load = startLoad({ url: program.url, key, readers: 1, writers: 32, pauseMs: 0 });
    await sleep(2_000);
    // As each instance does once an hour.
    const database = createPgDatabase({ url: databaseUrl, pool: 1, prepare: true });
    const addedBefore = load.acknowledged.size;
    const startedAt = performance.now();
    await deleteOldRows(database, 'idempotent_adds', 1);
    const seconds = (performance.now() - startedAt) / 1_000;
    const old = await runSql(
      databaseUrl,
      `SELECT 1 FROM idempotent_adds WHERE created_at <= now() - interval '24 hours'`,
    );
    const pruned = 1_000_000 - old.length;
    const added = load.acknowledged.size - addedBefore;
    await load.stop();
    await database.close();

    const outcome = await judge('pruning', load, databaseUrl);
    const perSecond = (count: number): number => Math.round(count / seconds);
    console.log(
      `${pruned} pruned in ${seconds.toFixed(1)} s: ${perSecond(pruned)} a second, while ${perSecond(added)} were added`,
    );
    expect(outcome).toMatchObject({ lost: 0, duplicated: 0 });
    expect(pruned).toBe(1_000_000);
    expect(perSecond(pruned)).toBeGreaterThan(Math.max(1_000, perSecond(added)));
  });
});
