// Patroni and etcd: a switchover, and kill -9 of the primary with its Patroni.
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { describeWith } from '../support/installed-program.js';
import { createUnlimitedKey, judge, startLoad } from '../support/load.js';
import { startPatroni, type PatroniCluster } from '../support/patroni.js';
import { makePlace, type Place, type Program } from '../support/process.js';

describeWith('patroni etcd pg_basebackup', 'two servers that Patroni manages', () => {
  let cluster: PatroniCluster;
  let place: Place;
  let program: Program;

  beforeAll(async () => {
    cluster = await startPatroni();
    place = await makePlace();
    program = await place.start({ PORT: '0', DATABASE_URL: cluster.url, LOG_LEVEL: 'fatal' });
  });
  afterAll(async () => {
    await place.close();
    await cluster.close();
  });

  it.each([
    ['a switchover', () => cluster.switchOver()],
    ['kill -9 of the primary', () => cluster.killPrimary()],
  ])('lose no addition and no read in %s', async (name, fail) => {
    const key = await createUnlimitedKey(place, cluster.url);
    const load = startLoad({ url: program.url, key });
    await sleep(2_000);
    await fail();
    await sleep(3_000);
    await load.stop();

    const outcome = await judge(`patroni: ${name}`, load, await cluster.findPrimary());
    expect(outcome).toMatchObject({ lost: 0, duplicated: 0 });
    expect(Object.keys(outcome.reads)).toEqual(['200']);
    expect(['200', '201', '503']).toEqual(expect.arrayContaining(Object.keys(outcome.adds)));
  });
});
