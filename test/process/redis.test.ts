import { afterAll, beforeAll, expect, it } from 'vitest';
import { findFreePort, makePlace, type Place, type Program } from '../support/process.js';
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

  it('start while Redis is unavailable, and then count separately', async () => {
    const env = { PORT: '0', DATABASE_URL: await place.database() };
    const program = await place.start({ ...env, REDIS_URL: `redis://127.0.0.1:${await findFreePort()}` });
    expect((await program.fetch('/readyz')).status).toBe(200);
    expect(await (await program.fetch('/metrics')).text()).toContain('limiter_mode{mode="per_instance"} 1');
    await program.stop();
  });
});
