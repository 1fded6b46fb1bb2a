// Two instances behind HAProxy are restarted one after the other: no request fails.
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { startBalancer, type Balancer } from '../support/balancer.js';
import { describeWith } from '../support/installed-program.js';
import { createUnlimitedKey, judge, startLoad } from '../support/load.js';
import { findFreePort, makePlace, until, type Place, type Program } from '../support/process.js';

const ROUNDS = process.env.DRILL ? 5 : 1;

describeWith('haproxy', 'two instances behind HAProxy', (haproxy) => {
  let place: Place;
  let databaseUrl: string;
  let ports: number[];
  let programs: Program[];
  let balancer: Balancer;

  const start = (port: number): Promise<Program> =>
    place.start({ PORT: String(port), DATABASE_URL: databaseUrl, TRUST_PROXY: 'true', LOG_LEVEL: 'fatal' });

  beforeAll(async () => {
    place = await makePlace();
    databaseUrl = await place.database();
    ports = [await findFreePort(), await findFreePort()];
    programs = await Promise.all(ports.map(start));
    balancer = await startBalancer(haproxy, ports);
  });
  afterAll(async () => {
    await balancer.close();
    await place.close();
  });

  it('serve every request while they are restarted one after the other', async () => {
    const key = await createUnlimitedKey(place, databaseUrl);
    const load = startLoad({ url: balancer.url, key });
    await sleep(1_000);
    for (let round = 0; round < ROUNDS; round++) {
      for (const [index, port] of ports.entries()) {
        await programs[index]?.stop();
        programs[index] = await start(port);
        await until('it is in rotation again', async () => (await balancer.countUp()) === ports.length);
      }
    }
    await load.stop();

    const outcome = await judge('rolling-restart', load, databaseUrl);
    expect(outcome).toMatchObject({ lost: 0, duplicated: 0 });
    expect(Object.keys(outcome.reads)).toEqual(['200']);
    expect(Object.keys(outcome.adds)).toEqual(['200', '201']);
  });
});
