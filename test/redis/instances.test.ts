import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { createDatabase, startGateway, type Gateway } from '../support/gateway.js';
import { connectRedis, describeWithRedis, redisUrl } from '../support/redis.js';

const INSTANCES = 4;
const CLIENTS = 50;
const ONE = '{ pets(limit: 1) { id } }';

describeWithRedis('four instances that share a Redis', () => {
  let drop: () => Promise<void>;
  let databaseUrl: string;
  let instances: Gateway[] = [];
  let first: Gateway;

  beforeAll(async () => {
    ({ drop, url: databaseUrl } = await createDatabase());
    const env = {
      DATABASE_URL: databaseUrl,
      REDIS_URL: redisUrl(),
      // This machine may be busy.
      REDIS_TIMEOUT_MS: '5000',
      BAN_AFTER: '1000',
      TRUST_PROXY: 'true',
      DATABASE_POOL: '4',
    };
    instances = await Promise.all(Array.from({ length: INSTANCES }, () => startGateway('server', env)));
    first = instances[0] as Gateway;
  });
  afterAll(async () => {
    await Promise.all(instances.map((instance) => instance.close()));
    await drop();
  });

  const instance = (index: number): Gateway => instances[index % INSTANCES] as Gateway;
  const remainingOf = ({ headers }: { readonly headers: Headers }): number =>
    Number(headers.get('x-ratelimit-remaining'));

  /** Every client sends six requests, each to another instance, over GraphQL and REST. */
  async function rush(key: string, query = ONE, rest = true): Promise<{ status: number; remaining: number }[]> {
    const headers = { Authorization: `Bearer ${key}` };
    const clients = Array.from({ length: CLIENTS }, async (_, client) => {
      const seen: { status: number; remaining: number }[] = [];
      for (let turn = 0; turn < 6; turn++) {
        const answer =
          rest && turn % 2 === 1
            ? await instance(client + turn).fetch('/v1/pets?limit=1', { headers })
            : await instance(client + turn).graphql(query, { key });
        seen.push({ status: answer.status, remaining: remainingOf(answer) });
      }
      return seen;
    });
    return (await Promise.all(clients)).flat();
  }

  it.each([
    ['minute', { perMinute: 97, perDay: 5_000 }],
    ['day', { perMinute: 5_000, perDay: 97 }],
  ])('admit exactly the limit of the %s, and report a different remainder to each of 50 clients', async (_, limits) => {
    const { key } = await first.createKey({ plan: 'enterprise', limits });
    const answers = await rush(key);
    expect(answers.filter(({ status }) => status !== 200 && status !== 429)).toEqual([]);
    const admitted = answers.filter(({ status }) => status === 200).map(({ remaining }) => remaining);
    expect(admitted.sort((a, b) => a - b)).toEqual(Array.from({ length: 97 }, (_, i) => i));
  });

  it('admit operations as a whole on every instance', async () => {
    const { key } = await first.createKey({ plan: 'enterprise', limits: { perMinute: 100, perDay: 1_000 } });
    const answers = await rush(
      key,
      '{ a: pets(limit: 1) { id } b: pets(limit: 2) { id } c: pets(limit: 3) { id } }',
      false,
    );
    const admitted = answers.filter(({ status }) => status === 200).map(({ remaining }) => remaining);
    expect(admitted.sort((a, b) => a - b)).toEqual(Array.from({ length: 33 }, (_, i) => 1 + 3 * i));
  });

  it('report the shared count with free operations and with errors', async () => {
    const { key } = await first.createKey({ plan: 'enterprise', limits: { perMinute: 10, perDay: 20 } });
    for (let i = 0; i < 3; i++) await instance(i).graphql(ONE, { key });
    const free = await instance(3).graphql('{ rateLimit { windows { remaining } } }', { key });
    expect(free.data.rateLimit.windows).toEqual([{ remaining: 7 }, { remaining: 17 }]);
    expect(remainingOf(await instance(2).graphql('{ nothing }', { key }))).toBe(7);
    expect(
      remainingOf(await instance(1).fetch('/v1/pets?limit=0', { headers: { Authorization: `Bearer ${key}` } })),
    ).toBe(7);
  });

  it('count the refusals of a key together, and enforce a ban from another instance', async () => {
    const [one, other] = (await Promise.all(
      [1, 2].map(() =>
        startGateway('server', {
          DATABASE_URL: databaseUrl,
          REDIS_URL: redisUrl(),
          BAN_AFTER: '3',
          BAN_SECONDS: '300',
        }),
      ),
    )) as [Gateway, Gateway];
    try {
      const { key } = await first.createKey({ plan: 'enterprise', limits: { perMinute: 1, perDay: 20 } });
      const codes: (string | undefined)[] = [];
      for (const asked of [one, other, one, other, one]) {
        codes.push((await asked.graphql(ONE, { key })).errors?.[0]?.extensions.code);
      }
      expect(codes).toEqual([undefined, 'RATE_LIMITED', 'RATE_LIMITED', 'RATE_LIMITED', 'KEY_BANNED']);
      const free = await other.graphql('{ __typename }', { key });
      expect([free.status, free.errors?.[0]?.extensions.code]).toEqual([429, 'KEY_BANNED']);
      expect(Number(free.headers.get('retry-after'))).toBeGreaterThan(250);
    } finally {
      await Promise.all([one.close(), other.close()]);
    }
  });

  it('enforce a ban from another instance with the first request, though it is wrong', async () => {
    const env = { DATABASE_URL: databaseUrl, REDIS_URL: redisUrl(), BAN_AFTER: '1', BAN_SECONDS: '300' };
    const banning = await startGateway('server', env);
    try {
      const { key } = await first.createKey({ plan: 'enterprise', limits: { perMinute: 1, perDay: 20 } });
      for (let i = 0; i < 3; i++) await banning.graphql(ONE, { key });
      const headers = { Authorization: `Bearer ${key}`, 'Content-Type': 'application/json' };
      const post = (path: string, body: unknown) =>
        startGateway('server', env).then(async (instance) => {
          const { status } = await instance.fetch(path, { method: 'POST', headers, body: JSON.stringify(body) });
          const second = await instance.graphql('{ nothing }', { key });
          await instance.close();
          return [status, second.errors?.[0]?.extensions.code];
        });
      for (const [path, body] of [
        ['/graphql', { query: '{ nothing }' }],
        ['/graphql', { query: 7 }],
        ['/graphql', [{ query: '{ __typename }' }, { query: '{ nothing }' }]],
        ['/v1/pets', { name: '' }],
      ] as const)
        expect([path, body, await post(path, body)]).toEqual([path, body, [429, 'KEY_BANNED']]);
    } finally {
      await banning.close();
    }
  });

  it('count the 401s of an address together', async () => {
    const headers = {
      'X-Forwarded-For': `2001:db8:${randomBytes(4)
        .toString('hex')
        .replace(/(?=.{4}$)/, ':')}::1`,
    };
    const answers = await Promise.all(
      Array.from({ length: 100 }, (_, i) =>
        instance(i)
          .fetch('/v1/pets', { headers })
          .then(({ status }) => status),
      ),
    );
    expect(answers.filter((status) => status === 401)).toHaveLength(60);
    expect(answers.filter((status) => status === 429)).toHaveLength(40);
  });

  it('store no API key in Redis, and nothing without an expiry', async () => {
    const created = await Promise.all([1, 2, 3].map(() => first.createKey()));
    const addresses = created.map(() => `203.0.113.${Math.floor(Math.random() * 250)}`);
    for (const [i, { key }] of created.entries()) {
      await instance(i).graphql(ONE, { key });
      await instance(i).graphql(ONE, { key: `${key}x`, headers: { 'X-Forwarded-For': addresses[i] as string } });
    }
    const client = await connectRedis(redisUrl());
    const kept: string[] = [];
    for await (const names of client.scanStream({ match: 'animals:*', count: 1_000 }) as AsyncIterable<string[]>) {
      for (const name of names) {
        const dump = (await client.dumpBuffer(name)) as Buffer | null;
        if (dump === null) continue;
        kept.push(name, dump.toString('latin1'));
        expect([name, await client.pttl(name)]).not.toEqual([name, -1]);
      }
    }
    client.disconnect();
    const text = kept.join('\n');
    for (const { id } of created) expect(text).toContain(`animals:store:key:{${id}}:minute`);
    for (const secret of [...created.map(({ key }) => key), ...addresses]) expect(text).not.toContain(secret);
    for (const { key } of created) expect(text).not.toContain(key.slice(5, 25));
  });
});
