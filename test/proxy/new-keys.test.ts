import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { request, type IncomingMessage } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { startGateway, startProxyBefore, type Gateway, type ProxyOnly } from '../support/gateway.js';
import { freeLimits, send, startScriptedUpstream, type ScriptedUpstream } from '../support/scripted-upstream.js';

const keyOf = (authorization: string | undefined): string => String(authorization).slice('Bearer '.length);

describe('keys that the upstream has not accepted before', () => {
  let upstream: ScriptedUpstream;
  let gateway: ProxyOnly;

  beforeEach(async () => {
    upstream = await startScriptedUpstream(({ headers }, response) => {
      const key = keyOf(headers.authorization);
      if (key.startsWith('valid')) setTimeout(send, 100, response, 200, '[]');
      else if (key.startsWith('absent')) send(response, 404, { code: 'not_found', message: 'No.', status: 404 });
      else if (key.startsWith('limited'))
        send(response, 429, { code: 'rate_limited', message: 'No.', status: 429 }, { 'Retry-After': '30' });
      else send(response, 401, { code: 'unauthorized', message: 'No.', status: 401 });
    });
    gateway = await startProxyBefore(upstream.url);
  });
  afterEach(async () => {
    await gateway.close();
    await upstream.close();
  });

  const statusesOf = async (name: string, count: number, query = '{ pets { id } }'): Promise<number[]> => {
    const answers = Array.from({ length: count }, (_, i) => gateway.graphql(query, { key: `${name}-${i}` }));
    return (await Promise.all(answers)).map(({ status }) => status);
  };

  it('are all served when many valid ones come at once', async () => {
    expect(new Set(await statusesOf('valid', 90))).toEqual(new Set([200]));
  });

  it('are served beside any number of valid keys over their limits', async () => {
    expect(new Set(await statusesOf('limited', 70))).toEqual(new Set([429]));
    expect(new Set(await statusesOf('valid', 40))).toEqual(new Set([200]));
  });

  it.each([400, 403])('need not wait for each other once the upstream has answered with %s', async (status) => {
    let open = 0;
    let most = 0;
    upstream.play((_, response) => {
      most = Math.max(most, (open += 1));
      response.on('finish', () => (open -= 1));
      setTimeout(send, 50, response, status, { code: 'c', message: 'm', status });
    });
    await gateway.graphql('{ pets { id } }', { key: 'once' });
    await Promise.all(
      Array.from({ length: 20 }, (_, i) => gateway.graphql(`{ pet(id: ${i}) { id } }`, { key: 'once' })),
    );
    expect(most).toBeGreaterThan(2);
  });

  it('get 429 from the gateway after sixty 401s of their address, and accepted keys do not', async () => {
    expect(new Set(await statusesOf('valid', 1))).toEqual(new Set([200]));
    expect(new Set(await statusesOf('made-up', 60))).toEqual(new Set([401]));
    upstream.seen.length = 0;
    const { status, errors, headers } = await gateway.graphql('{ pets { id } }', { key: 'valid-unseen' });
    expect([status, errors?.[0]?.extensions.code]).toEqual([429, 'RATE_LIMITED']);
    expect(Number(headers.get('retry-after'))).toBeGreaterThan(0);
    expect(headers.get('ratelimit')).toMatch(/^"minute";r=0;t=\d+$/);
    expect(new Set(await statusesOf('made-up-too', 30))).toEqual(new Set([429]));
    expect(upstream.seen).toEqual([]);
    expect(await statusesOf('valid', 1)).toEqual([200]);
  });

  it('are not accepted by a 404, with which the upstream may answer any key', async () => {
    expect(await statusesOf('absent', 1)).toEqual([200]);
    await statusesOf('made-up', 60);
    expect(await statusesOf('absent', 1)).toEqual([429]);
  });

  it('get 429 after sixty 401s, although their requests began before', async () => {
    const body = JSON.stringify({ query: '{ pets { id } }' });
    const requests = Array.from({ length: 70 }, (_, index) => {
      const headers = { 'Content-Type': 'application/json', Authorization: `Bearer made-up-${index}` };
      const sent = request(`${gateway.url}/graphql`, { method: 'POST', headers });
      sent.on('error', () => undefined).flushHeaders();
      return sent;
    });
    await sleep(300);
    const statuses: unknown[] = [];
    for (const sent of requests) {
      sent.end(body);
      const [response] = (await once(sent, 'response')) as [IncomingMessage];
      statuses.push(response.resume().statusCode);
    }
    expect(statuses).toEqual(Array.from({ length: 70 }, (_, index) => (index < 60 ? 401 : 429)));
    expect(upstream.seen).toHaveLength(60);
  });

  it('are refused free operations, too, once their address has sixty 401s', async () => {
    await statusesOf('made-up', 60);
    expect(await statusesOf('made-up-too', 40, '{ __typename }')).toEqual(Array.from({ length: 40 }, () => 429));
  });

  it('cost the upstream one request each, however much they ask for', async () => {
    const lookups = Array.from({ length: 50 }, (_, i) => `p${i}: pet(id: ${i}) { id }`).join(' ');
    const response = await gateway.fetch('/graphql', {
      method: 'POST',
      headers: { 'Content-Type': 'application/json', Authorization: 'Bearer made-up' },
      body: JSON.stringify([{ query: `{ ${lookups} }` }, { query: `{ ${lookups} }` }]),
    });
    expect(response.status).toBe(401);
    expect(upstream.seen).toHaveLength(1);
  });
});

it('made-up keys count for their address also while the store refuses all of its gateway', async () => {
  const gateway = await startGateway('proxy', { TRUST_PROXY: 'true' });
  const statusesOf = async (address: string, count: number) => {
    const headers = { 'X-Forwarded-For': address };
    const answers = Array.from({ length: count }, () =>
      gateway.graphql('{ pets { id } }', { key: randomUUID(), headers }),
    );
    return new Set((await Promise.all(answers)).map(({ status }) => status));
  };
  await statusesOf('192.0.2.1', 60);
  expect(await statusesOf('192.0.2.2', 60)).toEqual(new Set([429]));
  // The headers of those 429s state the limits of the gateway's address.
  const withKey = { key: 'made-up', headers: { 'X-Forwarded-For': '192.0.2.3' } };
  expect((await gateway.graphql('{ pets { id } }', withKey)).status).toBe(429);
  const { headers, data } = await gateway.graphql('{ rateLimit { windows { remaining } } }', withKey);
  expect([headers.get('ratelimit'), data]).toEqual([null, { rateLimit: null }]);
  const store = gateway.upstream as Gateway;
  store.logged.length = 0;
  expect(await statusesOf('192.0.2.2', 30)).toEqual(new Set([429]));
  expect(store.logged.filter(({ path }) => String(path).startsWith('/v1'))).toEqual([]);
  const { key } = await gateway.createKey();
  const { status } = await gateway.graphql('{ pets { id } }', { key, headers: { 'X-Forwarded-For': '192.0.2.3' } });
  expect(status).toBe(200);
  await gateway.close();
});

it('operations that share a GET report the numbers of the upstream', async () => {
  const upstream = await startScriptedUpstream((_, response) => send(response, 200, '[]', freeLimits(50)));
  const gateway = await startProxyBefore(upstream.url, { UPSTREAM_CONNECTIONS: '1' });
  await gateway.graphql('{ pets { id } }', { key: 'a' });
  upstream.play((_, response) => void setTimeout(send, 200, response, 200, '[]', freeLimits(40)));
  const first = gateway.graphql('{ pets(limit: 1) { id } }', { key: 'a' });
  const shared = Array.from({ length: 5 }, () => gateway.graphql('{ pets(limit: 2) { id } }', { key: 'a' }));
  await first;
  for (const { headers } of await Promise.all(shared)) expect(headers.get('x-ratelimit-remaining')).toBe('40');
  expect(upstream.seen).toHaveLength(2);

  // The client that asked first leaves before the request is sent.
  const before = gateway.graphql('{ pets(limit: 1) { id } }', { key: 'a' });
  await expect.poll(() => upstream.seen.length, { interval: 5 }).toBe(3);
  const init = { headers: { Authorization: 'Bearer a' }, signal: AbortSignal.timeout(50) };
  const leaving = gateway.fetch('/graphql?query={pets(limit:3){id}}', init).catch(() => undefined);
  await sleep(20);
  const joined = gateway.graphql('{ pets(limit: 3) { id } }', { key: 'a' });
  await Promise.all([before, leaving, joined]);
  expect((await joined).headers.get('x-ratelimit-remaining')).toBe('40');
  expect(upstream.seen.map(({ path }) => path).slice(2)).toEqual(['/pets?limit=1', '/pets?limit=3']);
  await gateway.close();
  await upstream.close();
});
