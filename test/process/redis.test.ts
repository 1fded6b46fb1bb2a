import { afterAll, beforeAll, expect, it } from 'vitest';
import { findFreePort, linesOf, makePlace, type Place, type Program } from '../support/process.js';
import { describeWithRedis, redisUrl } from '../support/redis.js';

const ONE = '{ pets(limit: 1) { id } }';

describeWithRedis('two processes with a Redis', () => {
  let place: Place;
  let first: Program;
  let second: Program;
  let key: string;

  beforeAll(async () => {
    place = await makePlace();
    const env = { PORT: '0', DATABASE_URL: await place.database(), REDIS_URL: redisUrl() };
    first = await place.start(env);
    second = await place.start(env);
    const created = await place.keys(['create', '--plan', 'free', '--json'], env);
    ({ key } = JSON.parse(created.stdout) as { key: string });
  });
  afterAll(() => place.close());

  it('count together', async () => {
    for (let i = 0; i < 30; i++) {
      for (const program of [first, second]) expect(await program.graphql(ONE, key)).toHaveProperty('data.pets');
    }
    for (const program of [first, second]) {
      expect(await program.graphql(ONE, key)).toHaveProperty('errors.0.extensions.code', 'RATE_LIMITED');
    }
  });

  it('let the keys command say that Redis does not answer', async () => {
    const REDIS_URL = `redis://127.0.0.1:${await findFreePort()}`;
    const { code, stderr } = await place.keys(['list'], { DATABASE_URL: await place.database(), REDIS_URL });
    const said = 'keys: Redis does not answer: what keys have left and their bans are not shown';
    expect([code, linesOf(stderr)]).toEqual([0, [said, expect.stringMatching(/^keys: the store on /)]]);
  });

  it('do not start without Redis, and say so in one line', async () => {
    const env = { PORT: '0', DATABASE_URL: await place.database(), START_TIMEOUT_MS: '300' };
    const { code, stdout, stderr } = await place.run({
      ...env,
      REDIS_URL: `redis://127.0.0.1:${await findFreePort()}`,
    });
    expect(code).toBe(1);
    expect(linesOf(stderr)).toEqual([expect.stringContaining('REDIS_URL')]);
    expect(stdout).not.toContain('counts limits alone');
  });
});
