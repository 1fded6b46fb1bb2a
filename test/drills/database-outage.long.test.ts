// PostgreSQL is unavailable: instances stay in HAProxy's rotation, and clients get the program's own 503 with CORS headers.
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { startBalancer, type Balancer } from '../support/balancer.js';
import { describeWith } from '../support/installed-program.js';
import { createUnlimitedKey, judge, secondsUntilBack, startLoad } from '../support/load.js';
import { startPostgres, type PostgresCluster } from '../support/postgres-cluster.js';
import { findFreePort, makePlace, type Place } from '../support/process.js';

const OUTAGE_MS = process.env.DRILL ? 30_000 : 6_000;
const ORIGIN = 'https://shop.example.com';

describeWith('haproxy', 'a database outage behind HAProxy', (haproxy) => {
  let cluster: PostgresCluster;
  let place: Place;
  let balancer: Balancer;

  beforeAll(async () => {
    cluster = await startPostgres();
    place = await makePlace();
    const ports = [await findFreePort(), await findFreePort()];
    for (const port of ports) {
      await place.start({
        PORT: String(port),
        DATABASE_URL: cluster.url,
        CORS_ORIGINS: ORIGIN,
        TRUST_PROXY: 'true',
        LOG_LEVEL: 'fatal',
      });
    }
    balancer = await startBalancer(haproxy, ports);
  });
  afterAll(async () => {
    await balancer.close();
    await place.close();
    await cluster.close();
  });

  it('takes no instance out of rotation, and clients get 503 with its CORS headers', async () => {
    const key = await createUnlimitedKey(place, cluster.url);
    const load = startLoad({ url: balancer.url, key });
    await sleep(1_000);
    await cluster.kill();
    const awayAt = performance.now();
    const counts = new Set<number>();
    while (performance.now() < awayAt + OUTAGE_MS) {
      counts.add(await balancer.countUp());
      const response = await fetch(`${balancer.url}/v1/pets`, {
        headers: { Authorization: `Bearer ${key}`, Origin: ORIGIN },
      });
      expect(response.status).toBe(503);
      expect(await response.json()).toMatchObject({ code: 'unavailable', status: 503 });
      expect(response.headers.get('Access-Control-Allow-Origin')).toBe(ORIGIN);
      await sleep(500);
    }
    await cluster.start();
    const repairedAt = performance.now();
    await sleep(3_000);
    await load.stop();

    const outcome = await judge('database-outage', load, cluster.url);
    const back = secondsUntilBack(load, repairedAt);
    console.log(`additions work ${back} s after the database is back`);
    expect([...counts]).toEqual([2]);
    expect(outcome).toMatchObject({ lost: 0, duplicated: 0 });
    expect(Object.keys(outcome.reads)).toEqual(['200', '503']);
    expect(Object.keys(outcome.adds)).toEqual(['200', '201', '503']);
    expect(back).toBeLessThan(5);
  });
});
