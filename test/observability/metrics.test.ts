import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { PLANS } from '../../src/access/plans.js';
import { VERSION } from '../../src/observability/package.js';
import { breakReads, startGateway, startProxyBefore, type Gateway, type Mode } from '../support/gateway.js';
import { describeWithRedis, redisUrl } from '../support/redis.js';
import { startScriptedUpstream } from '../support/scripted-upstream.js';
import { scrape, sum, type Sample } from './scrape.js';

const ADD = 'mutation { addPet(input: { name: "Kiwi", categoryId: 1 }) { id } }';
const ADMITTED = 'limiter_admitted_requests_total';
const HTTP = 'http_server_request_duration_seconds';
const OPERATIONS = 'graphql_server_operation_duration_seconds';
const STATEMENTS = 'db_client_operation_duration_seconds';
const UPSTREAM = 'http_client_request_duration_seconds';

/** `count` aliased lookups of absent animals. */
const lookups = (count: number): string =>
  `{ ${Array.from({ length: count }, (_, n) => `a${n}: pet(id: ${9_000 + n}) { id }`).join(' ')} }`;

/** Checks how much `work` adds to metrics. It polls, because a request is measured after its response. */
async function growth(
  gateway: Pick<Gateway, 'fetch'>,
  work: () => Promise<unknown>,
  expected: readonly (readonly [name: string, labels: Sample['labels'], by: number])[],
): Promise<void> {
  const before = await scrape(gateway);
  await work();
  await vi.waitFor(async () => {
    const after = await scrape(gateway);
    const grown = expected.map(([name, labels]) => [
      name,
      labels,
      (sum(after, name, labels) ?? 0) - (sum(before, name, labels) ?? 0),
    ]);
    expect(grown).toEqual(expected);
  });
}

describe.each<Mode>(['embedded', 'server', 'proxy'])('metrics, %s', (mode) => {
  /** An upstream does not state the plans of its keys. */
  const stated = (plan: string): string => (mode === 'proxy' ? 'unknown' : plan);
  let gateway: Gateway;
  let key: string;

  beforeAll(async () => {
    gateway = await startGateway(mode, { BAN_AFTER: '2' });
    ({ key } = await gateway.createKey({ plan: 'pro' }));
    // In proxy mode, the gateway learns the plan from the first response.
    await gateway.graphql('{ pets { id } }', { key });
  });
  afterAll(() => gateway.close());

  it('count HTTP requests by route, method and status', async () => {
    await growth(gateway, async () => {
      await gateway.graphql('{ pets { id } }', { key });
      await gateway.graphql('{ pets { id } }');
      await gateway.fetch('/graphql', { method: 'PROPFIND' });
      await gateway.fetch(`/no-such-path-${Math.random()}`);
    }, [
      [`${HTTP}_count`, { http_route: '/graphql', http_request_method: 'POST', http_response_status_code: '200' }, 1],
      [`${HTTP}_count`, { http_route: '/graphql', http_request_method: 'POST', http_response_status_code: '401' }, 1],
      [`${HTTP}_count`, { http_request_method: '_OTHER', http_response_status_code: '405' }, 1],
      [`${HTTP}_count`, { http_route: 'other', http_response_status_code: '404' }, 1],
      [`${HTTP}_bucket`, { http_route: '/graphql', http_response_status_code: '200', le: '+Inf' }, 1],
    ]);
  });

  it('count operations by type and outcome', async () => {
    await growth(gateway, async () => {
      await gateway.graphql('query Some { pets { id } }', { key });
      await gateway.graphql(ADD, { key });
      await gateway.graphql('{ pet(id: 9000) { id } pets { id } }', { key });
      await gateway.graphql('{ pets { colour } }', { key });
      await gateway.graphql('{', { key });
    }, [
      [`${OPERATIONS}_count`, { graphql_operation_type: 'query', outcome: 'ok' }, 1],
      [`${OPERATIONS}_count`, { graphql_operation_type: 'mutation', outcome: 'ok' }, 1],
      [`${OPERATIONS}_count`, { graphql_operation_type: 'query', outcome: 'error' }, 1],
      [`${OPERATIONS}_count`, { graphql_operation_type: 'unknown', outcome: 'refused' }, 2],
      [`${OPERATIONS}_count`, { outcome: 'failed' }, 0],
    ]);
    const seconds = sum(await scrape(gateway), `${OPERATIONS}_sum`, { outcome: 'ok' });
    expect(seconds).toBeGreaterThan(0);
    expect(seconds).toBeLessThan(30);
  });

  it('count each operation of a batch', async () => {
    const body = JSON.stringify([{ query: '{ pets { id } }' }, { query: '{ __typename }' }, { query: '{ nothing }' }]);
    const headers = { 'Content-Type': 'application/json', Authorization: `Bearer ${key}` };
    await growth(gateway, () => gateway.fetch('/graphql', { method: 'POST', headers, body }), [
      [`${OPERATIONS}_count`, { outcome: 'ok' }, 2],
      [`${OPERATIONS}_count`, { outcome: 'refused' }, 1],
      [ADMITTED, {}, 1],
    ]);
  });

  it('count admitted operations and their cost by plan', async () => {
    await growth(gateway, async () => {
      await gateway.graphql(lookups(7), { key });
      await gateway.graphql(ADD, { key });
      await gateway.graphql('{ rateLimit { plan } __typename }', { key });
    }, [
      [ADMITTED, { plan: stated('pro') }, 8],
      [ADMITTED, {}, 8],
    ]);
  });

  it('count refusals by plan and reason, including bans', async () => {
    const free = (await gateway.createKey({ plan: 'free' })).key;
    await gateway.graphql('{ pets { id } }', { key: free });
    const refusals = 'limiter_refusals_total';
    await growth(gateway, async () => {
      await gateway.graphql(lookups(61), { key: free });
      await gateway.graphql(lookups(60), { key: free });
      await gateway.graphql(lookups(60), { key: free });
    }, [
      [refusals, { plan: stated('free'), reason: 'operation_too_large' }, 1],
      [refusals, { plan: stated('free'), reason: 'rate_limited' }, 2],
      [refusals, {}, 3],
      [ADMITTED, { plan: stated('free') }, 0],
      [`${OPERATIONS}_count`, { outcome: 'refused' }, 3],
    ]);
    // A gateway prevents bans, so bans are counted only in the store behind it.
    const store = gateway.upstream ?? gateway;
    if (store !== gateway) await growth(store, () => storeRefusals(store, free, 2), [[refusals, { plan: 'free' }, 2]]);
    await growth(store, () => storeRefusals(store, free, 3), [
      [refusals, { plan: 'free', reason: 'key_banned' }, 3],
      [refusals, { plan: 'free', reason: 'rate_limited' }, 0],
    ]);
  });

  async function storeRefusals(store: Gateway, refused: string, count: number): Promise<void> {
    for (let n = 0; n < count; n++) await store.graphql(lookups(60), { key: refused });
  }

  it('count the refusals of an address, which has no plan', async () => {
    for (let n = 0; n < 62; n++) await gateway.graphql('{ pets { id } }');
    const samples = await scrape(gateway);
    const refused = sum(samples, 'limiter_refusals_total', { reason: 'address' });
    expect(refused).toBeGreaterThanOrEqual(2);
    expect(sum(samples, 'limiter_refusals_total', { reason: 'address', plan: 'unknown' })).toBe(refused);
  });

  it('describe the build, the log and the event loop', async () => {
    const samples = await scrape(gateway);
    // Without Redis, there is nothing to share.
    expect(sum(samples, 'limiter_shared')).toBeUndefined();
    expect(sum(samples, 'log_lines_dropped_total')).toBe(0);
    expect(samples.find(({ name }) => name === 'animal_store_gateway_info')).toMatchObject({
      labels: { version: VERSION },
      value: 1,
    });
    // In seconds. The bound is generous for a busy machine.
    for (const name of ['nodejs_eventloop_lag_p99_seconds', 'nodejs_eventloop_lag_seconds']) {
      expect(sum(samples, name)).toBeGreaterThan(0);
      expect(sum(samples, name)).toBeLessThan(5);
    }
    const active = sum(samples, 'nodejs_eventloop_active_seconds_total');
    expect(active).toBeGreaterThan(0);
    expect(active).toBeLessThan(performance.now() / 1_000);
    await vi.waitFor(async () => expect(sum(await scrape(gateway), 'http_server_active_requests')).toBe(1));
  });

  it('have no key, name or address in a label, and bounded label values', async () => {
    const secret = 'Whatever';
    await gateway.graphql(`query ${secret} { ${secret}: pets { id } }`, { key });
    await gateway.graphql(`query { ${secret} }`, { key, headers: { 'apollographql-client-name': secret } });
    await gateway.fetch(`/v1/pets/${secret}?x=${secret}`, { headers: { Authorization: `Bearer ${key}` } });
    const samples = await scrape(gateway);
    const values = new Set(samples.flatMap(({ labels }) => Object.values(labels)));
    for (const value of values) {
      expect(value).not.toContain(secret);
      expect(value).not.toContain(key);
      expect(value).not.toMatch(/127\.0\.0\.1|key_[^b]|localhost/);
    }
    const of = (label: string): Set<string | undefined> => new Set(samples.map(({ labels }) => labels[label]));
    expect([...PLANS, 'unknown', undefined]).toEqual(expect.arrayContaining([...of('plan')]));
    expect(of('http_route').size).toBeLessThan(8);
  });

  if (mode === 'proxy') {
    it('count requests to the upstream by method and outcome', async () => {
      const store = gateway.upstream as Gateway;
      await growth(gateway, async () => {
        await gateway.graphql('{ a: pets(limit: 37) { id } b: pet(id: 9000) { id } }', { key });
        await gateway.graphql(ADD, { key });
      }, [
        [`${UPSTREAM}_count`, { http_request_method: 'GET', http_response_status_code: '200' }, 1],
        [`${UPSTREAM}_count`, { http_request_method: 'GET', http_response_status_code: '404', error_type: '404' }, 1],
        [`${UPSTREAM}_count`, { http_request_method: 'POST', http_response_status_code: '201' }, 1],
      ]);
      const samples = await scrape(gateway);
      expect(sum(samples, 'http_client_active_requests')).toBe(0);
      expect(sum(samples, 'upstream_breaker_open')).toBe(0);
      expect(sum(samples, `${STATEMENTS}_count`)).toBeUndefined();
      expect(sum(await scrape(store), `${UPSTREAM}_count`)).toBeUndefined();
    });
  } else {
    it('count statements by name', async () => {
      await growth(gateway, async () => {
        await gateway.graphql('{ pets { id } }', { key });
        await gateway.graphql(ADD, { key });
        await gateway.graphql(lookups(5), { key });
      }, [
        [`${STATEMENTS}_count`, { db_query_summary: 'list-pets', db_system_name: 'postgresql' }, 1],
        [`${STATEMENTS}_count`, { db_query_summary: 'add-pet' }, 1],
        [`${STATEMENTS}_count`, { db_query_summary: 'find-pets' }, 1],
        [`${STATEMENTS}_count`, { error_type: '_OTHER' }, 0],
      ]);
    });

    it(`${mode === 'server' ? 'describe' : 'do not describe'} the connection pool`, async () => {
      const samples = await scrape(gateway);
      const [used, idle, waiting, max] = ['used', 'idle', 'waiting', 'max'].map((state) =>
        sum(samples, 'db_client_pool', { db_client_pool_state: state }),
      );
      if (mode === 'server') {
        expect({ used, waiting, max }).toEqual({ used: 0, waiting: 0, max: 10 });
        expect(idle).toBeGreaterThan(0);
      } else expect(sum(samples, 'db_client_pool')).toBeUndefined();
    });
  }
});

describeWithRedis('metrics of Redis', () => {
  it('count its calls by name', async () => {
    const gateway = await startGateway('server', { REDIS_URL: redisUrl() });
    try {
      const { key } = await gateway.createKey();
      const redis = { db_system_name: 'redis' };
      await growth(gateway, () => gateway.graphql('{ pets { id } }', { key }), [
        [`${STATEMENTS}_count`, { db_query_summary: 'admit', ...redis }, 1],
        [`${STATEMENTS}_count`, redis, 1],
        [`${STATEMENTS}_count`, { error_type: 'timeout' }, 0],
      ]);
      const samples = await scrape(gateway);
      expect(sum(samples, `${STATEMENTS}_sum`, redis)).toBeGreaterThan(0);
      expect(sum(samples, 'limiter_shared')).toBe(1);
    } finally {
      await gateway.close();
    }
  });
});

describe('metrics of failures', () => {
  it('count failed statements and the operations that fail with them', async () => {
    const gateway = await startGateway('server');
    try {
      const { key } = await gateway.createKey();
      await gateway.graphql('{ pets { id } }', { key });
      await breakReads(gateway);
      await growth(gateway, () => gateway.graphql('{ pets { id } }', { key }), [
        [`${STATEMENTS}_count`, { db_query_summary: 'list-pets', error_type: '_OTHER' }, 1],
        [`${OPERATIONS}_count`, { graphql_operation_type: 'query', outcome: 'failed' }, 1],
        [`${OPERATIONS}_count`, { outcome: 'error' }, 0],
      ]);
    } finally {
      await gateway.close();
    }
  });

  it('count requests to an unreachable upstream, and report the open breaker', async () => {
    const upstream = await startScriptedUpstream();
    const gateway = await startProxyBefore(upstream.url);
    await upstream.close();
    try {
      const ask = () => gateway.graphql('{ pets { id } }', { key: 'some-key' });
      await ask();
      const samples = await scrape(gateway);
      const unreachable = { http_request_method: 'GET', error_type: 'unreachable' };
      expect(sum(samples, `${UPSTREAM}_count`, unreachable)).toBeGreaterThan(0);
      expect(sum(samples, `${OPERATIONS}_count`, { outcome: 'failed' })).toBe(1);
      await vi.waitFor(
        async () => {
          await ask();
          expect(sum(await scrape(gateway), 'upstream_breaker_open')).toBe(1);
        },
        { timeout: 20_000 },
      );
    } finally {
      await gateway.close();
    }
  });
});
