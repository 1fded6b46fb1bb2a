import type { ServerResponse } from 'node:http';
import { connect, createServer, type AddressInfo, type Server, type Socket } from 'node:net';
import { text } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { createCall } from '../../src/pets/pet-source.js';
import { createBreaker } from '../../src/proxy/breaker.js';
import { createUpstreamClient } from '../../src/proxy/client.js';
import type { Result } from '../../src/proxy/batch.js';
import { createUpstreamKey } from '../support/calls.js';
import { startProxyBefore, type ProxyOnly } from '../support/gateway.js';
import {
  answerAnimals,
  freeLimits,
  send,
  startScriptedUpstream,
  type Script,
  type ScriptedUpstream,
} from '../support/scripted-upstream.js';

const TIMEOUT_MS = 600;
/** How an animal store answers a request without a key. */
const REFUSAL = '{"code":"unauthorized","message":"No key.","status":401}';
const ADD = 'mutation { addPet(input: { name: "x", categoryId: 1 }) { id } }';

describe('a gateway whose upstream fails', () => {
  let upstream: ScriptedUpstream;
  let gateway: ProxyOnly;

  beforeEach(async () => {
    upstream = await startScriptedUpstream();
    gateway = await startProxyBefore(upstream.url, { UPSTREAM_TIMEOUT_MS: String(TIMEOUT_MS) });
  });
  afterEach(async () => {
    await gateway.close();
    await upstream.close();
  });

  async function timed(query: string) {
    const startedAt = Date.now();
    const answer = await gateway.graphql(query, { key: 'a' });
    expect(Date.now() - startedAt).toBeLessThan(TIMEOUT_MS + 500);
    return { ...answer, code: answer.errors?.[0]?.extensions.code };
  }

  it('returns UPSTREAM_TIMEOUT within the time limit if the upstream stalls', async () => {
    upstream.play(() => undefined);
    const { status, data, code } = await timed('{ pets { id } }');
    expect([status, data, code]).toEqual([200, { pets: null }, 'UPSTREAM_TIMEOUT']);
    expect((await timed(ADD)).code).toBe('UPSTREAM_TIMEOUT');
  });

  it('sends no further addition of an operation after one that was not answered in time', async () => {
    // Then there are connections that wait for requests.
    for (const ids of [[1], [2, 3, 4, 5]])
      await Promise.all(ids.map((id) => gateway.graphql(`{ pet(id: ${id}) { id } }`, { key: 'a' })));
    upstream.play(() => undefined);
    const add = 'addPet(input: { name: "x", categoryId: 1 }) { id }';
    const many = Array.from({ length: 50 }, (_, n) => `a${n}: ${add}`).join(' ');
    const { errors = [] } = await timed(`mutation { ${many} }`);
    expect(errors.map(({ extensions }) => extensions.code)).toEqual(Array(50).fill('UPSTREAM_TIMEOUT'));
    expect(upstream.seen).toHaveLength(1);
  });

  it('returns UPSTREAM_TIMEOUT if the response is too slow', async () => {
    upstream.play((_, response) => {
      response.writeHead(200, { 'Content-Type': 'application/json' });
      const drip = setInterval(() => response.write(' '), 100);
      response.on('close', () => clearInterval(drip));
    });
    expect((await timed('{ pets { id } }')).code).toBe('UPSTREAM_TIMEOUT');
  });

  it.each([401, 429])('remembers a %i whose body does not arrive in time', async (status) => {
    upstream.play((_, response) => {
      response.writeHead(status, { 'Content-Length': '100', 'Retry-After': '30' });
      response.flushHeaders();
    });
    await timed('{ pets { id } }');
    const { errors } = await gateway.graphql('{ pets { id } }', { key: 'a' });
    expect(errors?.[0]?.extensions.code).toBe(status === 401 ? 'UNAUTHENTICATED' : 'RATE_LIMITED');
    expect(upstream.seen).toHaveLength(1);
  });

  it('returns UPSTREAM_UNAVAILABLE after a connection reset, and does not retry a POST that was sent', async () => {
    upstream.play((_, response) => response.socket?.destroy());
    expect((await timed(ADD)).code).toBe('UPSTREAM_UNAVAILABLE');
    expect(upstream.seen).toHaveLength(1);
    expect((await timed('{ pets { id } }')).code).toBe('UPSTREAM_UNAVAILABLE');
  });

  it('returns UPSTREAM_ERROR for an incomplete response', async () => {
    upstream.play((_, response) => {
      response.writeHead(200, { 'Content-Length': '1000' });
      response.write('[{"id":1');
      setTimeout(() => response.socket?.destroy(), 20);
    });
    expect((await timed('{ pets { id } }')).code).toBe('UPSTREAM_ERROR');
  });

  it('retries a request whose response breaks off', async () => {
    upstream.play((request, response, index) => {
      if (index > 0) return answerAnimals(request, response);
      response.writeHead(200, { 'Content-Length': '1000' });
      response.write('[{"id":1');
      setTimeout(() => response.socket?.destroy(), 20);
    });
    expect((await timed('{ pets { id } }')).data.pets).toEqual([{ id: '1' }]);
    expect(upstream.seen).toHaveLength(2);
  });

  it.each([502, 503, 504])('retries a request after a single %i', async (status) => {
    upstream.play((request, response, index) =>
      index === 0 ? send(response, status, '<html>') : answerAnimals(request, response),
    );
    const { data } = await timed('{ pets { id } }');
    expect(data.pets).toEqual([{ id: '1' }]);
    expect(upstream.seen).toHaveLength(2);
  });

  it.each([500, 501, 400])('does not retry a request after a %i', async (status) => {
    upstream.play((_, response) => send(response, status, { code: 'c', message: 'm', status }));
    await timed('{ pets { id } }');
    expect(upstream.seen).toHaveLength(1);
  });

  it.each([
    [0, 1],
    [1, 2],
    [2, 3],
  ])('retries no request for which the key has nothing left: %i left', async (left, sent) => {
    upstream.play((_, response, index) => send(response, 503, '<html>', freeLimits(Math.max(0, left - index))));
    expect((await timed('{ pets { id } }')).code).toBe('UPSTREAM_ERROR');
    expect(upstream.seen).toHaveLength(sent);
  });

  it('does not retry a request before the upstream wants it', async () => {
    upstream.play((_, response) =>
      send(response, 503, { code: 'c', message: 'm', status: 503 }, { 'Retry-After': '30' }),
    );
    expect((await timed('{ pets { id } }')).code).toBe('UPSTREAM_ERROR');
    expect(upstream.seen).toHaveLength(1);
  });

  it('leaves the upstream its time after a slow upload', async () => {
    const url = new URL(gateway.url);
    const body = JSON.stringify({ query: '{ pets { id } }' });
    const socket = connect(Number(url.port), url.hostname);
    socket.write(
      `POST /graphql HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer a\r\n` +
        `Content-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n`,
    );
    await sleep(TIMEOUT_MS + 100);
    socket.write(body);
    expect(await text(socket)).toContain('{"data":{"pets":[{"id":"1"}]}}');
  });

  it('does not retry an addPet after a 503', async () => {
    upstream.play((_, response) => send(response, 503, { code: 'c', message: 'm', status: 503 }));
    expect((await timed(ADD)).code).toBe('UPSTREAM_ERROR');
    expect(upstream.seen).toHaveLength(1);
  });

  it('sends at most a fifth more requests than without retries during a long outage', async () => {
    // From then on, the requests of the key need not go one after the other.
    await gateway.graphql('{ pets { id } }', { key: 'a' });
    upstream.seen.length = 0;
    upstream.play((_, response) => send(response, 503, '<html>'));
    const count = 200;
    for (let i = 0; i < count / 20; i++) {
      await Promise.all(
        Array.from({ length: 20 }, (_, n) => gateway.graphql(`{ pet(id: ${i * 20 + n}) { id } }`, { key: 'a' })),
      );
    }
    expect(upstream.seen.length).toBeGreaterThan(count);
    expect(upstream.seen.length).toBeLessThanOrEqual(count * 1.2);
  });

  it('keeps the breaker closed if only the requests of one key time out', async () => {
    upstream.play((request, response) => {
      if (request.headers.authorization !== 'Bearer slow') answerAnimals(request, response);
    });
    const aliases = Array.from({ length: 20 }, (_, i) => `p${i}: pet(id: ${i}) { id }`).join(' ');
    for (const limit of [1, 2]) {
      const slow = `{ ${aliases} pets(limit: ${limit}) { id } }`;
      await Promise.all([1, 2, 3].map(() => gateway.graphql(slow, { key: 'slow' })));
      expect((await timed('{ pets { id } }')).data.pets).toEqual([{ id: '1' }]);
    }
    expect((await gateway.fetch('/readyz')).status).toBe(200);
  });

  it.each<[string, (response: ServerResponse) => void]>([
    ['a body that is too long', (response) => send(response, 200, `[${' '.repeat(1_100_000)}]`)],
    ['part of a body', (response) => void response.socket?.end('HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n[')],
    ['no HTTP', (response) => void response.socket?.end('220 mail.example.com ESMTP\r\n')],
    ['no answer on its connection', (response) => void response.socket?.destroy()],
  ])('keeps the breaker closed if only the requests of one key get %s', async (_, answer) => {
    upstream.play((request, response) => {
      if (request.headers.authorization === 'Bearer unlucky') answer(response);
      else answerAnimals(request, response);
    });
    const until = performance.now() + 800;
    while (performance.now() < until) {
      const { errors } = await gateway.graphql('{ pets { id } }', { key: 'unlucky' });
      expect(errors?.[0]?.extensions.code).toMatch(/^UPSTREAM_/);
    }
    expect(await (await gateway.fetch('/metrics')).text()).toContain('upstream_breaker_open 0');
    expect((await gateway.graphql('{ pets { id } }', { key: 'a' })).data.pets).toEqual([{ id: '1' }]);
  });

  it('asks the upstream again after an outage', async () => {
    const answerWithId: Script = (request, response) => {
      response.setHeader('X-Request-Id', String(request.headers['x-request-id']));
      answerAnimals(request, response);
    };
    upstream.play(answerWithId);
    expect((await timed('{ pets { id } }')).data.pets).toEqual([{ id: '1' }]);
    upstream.goAway();
    await timed('{ pets { id } }');
    await expect.poll(async () => (await gateway.fetch('/readyz?backend=true')).status, { timeout: 5_000 }).toBe(503);
    upstream.play(answerWithId);
    await expect
      .poll(async () => (await timed('{ pets { id } }')).data.pets as unknown, { timeout: 5_000 })
      .toEqual([{ id: '1' }]);
  });

  it('logs a failed batch in one line', async () => {
    upstream.play((_, response) => send(response, 500, { code: 'c', message: 'm', status: 500 }));
    const before = gateway.logged.length;
    await gateway.fetch('/graphql', {
      method: 'POST',
      headers: { 'Content-Type': 'application/json', Authorization: 'Bearer a' },
      body: JSON.stringify([{ query: '{ pet(id: 1) { id } pet2: pet(id: 2) { id } }' }, { query: '{ pets { id } }' }]),
    });
    const lines = gateway.logged.slice(before).filter(({ msg }) => msg !== 'request');
    expect(lines).toMatchObject([{ code: 'upstream_error', requests: 1, msg: 'the upstream answered 500' }]);
  });

  it('asks the upstream at most once a second, however often /readyz is requested', async () => {
    const before = upstream.checks();
    const startedAt = performance.now();
    for (let i = 0; i < 50; i += 1) expect((await gateway.fetch('/readyz')).status).toBe(200);
    expect(upstream.checks() - before).toBeLessThanOrEqual(1 + (performance.now() - startedAt) / 1_000);
  });

  it('opens the breaker if failures continue, fails at once, and resumes soon after the upstream recovers', async () => {
    upstream.goAway();
    await expect
      .poll(
        async () => {
          await gateway.graphql('{ pets { id } }', { key: 'a' });
          return await (await gateway.fetch('/metrics')).text();
        },
        { timeout: 10_000, interval: 10 },
      )
      .toContain('upstream_breaker_open 1');
    const startedAt = performance.now();
    const { errors } = await gateway.graphql('{ pets { id } }', { key: 'a' });
    expect(performance.now() - startedAt).toBeLessThan(TIMEOUT_MS);
    expect(errors?.[0]?.extensions.code).toBe('UPSTREAM_UNAVAILABLE');
    expect((await gateway.fetch('/readyz?backend=true')).status).toBe(503);
    upstream.play(answerAnimals);
    await expect
      .poll(async () => (await gateway.graphql('{ pets { id } }', { key: 'a' })).errors, {
        timeout: 5_000,
        interval: 200,
      })
      .toBeUndefined();
    await expect.poll(async () => (await gateway.fetch('/readyz?backend=true')).status).toBe(200);
  });
});

it('an open breaker refuses also requests that wait for a connection', async () => {
  const upstream = await startScriptedUpstream();
  const breaker = createBreaker(() => undefined);
  const client = createUpstreamClient({ url: upstream.url, connections: 2, timeoutMs: 60_000, breaker });
  const ask = (path: string): Promise<readonly Result[]> =>
    client.ask([path], {
      call: { ...createCall('test'), key: createUpstreamKey('a') },
      method: 'GET',
      headers: [],
      read: () => [],
    });
  const held: (() => void)[] = [];
  upstream.play((request, response) => void held.push(() => answerAnimals(request, response)));
  const sent = ask('/pets/1');
  await expect.poll(() => held.length).toBe(1);
  const waiting = ask('/pets/2');
  const startedAt = performance.now();
  const clock = vi.spyOn(performance, 'now');
  breaker.failed();
  clock.mockImplementation(() => startedAt + 2_000);
  breaker.failed();
  expect(breaker.isOpen).toBe(true);
  vi.restoreAllMocks();
  expect(await ask('/pets/3')).toMatchObject([{ code: 'upstream_unavailable' }]);
  expect(await waiting).toMatchObject([{ code: 'upstream_unavailable' }]);
  held[0]?.();
  expect(await sent).toEqual([[]]);
  expect(upstream.seen.map(({ path }) => path)).toEqual(['/pets/1']);
  await client.close();
  await upstream.close();
});

describe('a gateway whose upstream is not an HTTP server', () => {
  const servers: Server[] = [];
  const gateways: ProxyOnly[] = [];

  async function before(onConnection: (socket: Socket) => void): Promise<ProxyOnly> {
    let isStarted = false;
    const server = createServer((socket) => {
      socket.on('error', () => undefined);
      // The start waits until the upstream answers like an animal store.
      if (isStarted) onConnection(socket);
      else
        socket.once('data', () =>
          socket.end(`HTTP/1.1 401 Unauthorized\r\nContent-Length: ${REFUSAL.length}\r\n\r\n${REFUSAL}`),
        );
    });
    servers.push(server);
    await new Promise<void>((ready) => server.listen(0, '127.0.0.1', ready));
    const { port } = server.address() as AddressInfo;
    const gateway = await startProxyBefore(`http://127.0.0.1:${port}/v1`, { UPSTREAM_TIMEOUT_MS: String(TIMEOUT_MS) });
    gateways.push(gateway);
    isStarted = true;
    return gateway;
  }

  afterAll(async () => {
    for (const gateway of gateways) await gateway.close();
    for (const server of servers) server.close();
  });

  it.each([
    ['what is not HTTP', '\u0000\u0001 not HTTP at all\r\n\r\n'],
    ['two lengths', 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\n[]'],
    ['two lengths in one header', 'HTTP/1.1 200 OK\r\nContent-Length: 5, 7\r\n\r\n[]'],
    [
      'a length and chunks',
      `HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n[]\r\n0\r\n\r\n`,
    ],
    ['headers that are too long', `HTTP/1.1 200 OK\r\nX-Long: ${'x'.repeat(20_000)}\r\nContent-Length: 2\r\n\r\n[]`],
  ])('returns UPSTREAM_ERROR at once for %s', async (_, response) => {
    let requests = 0;
    const gateway = await before((socket) =>
      socket.on('data', (bytes) => {
        if (bytes.includes('uthorization: Bearer')) requests += 1;
        socket.write(response);
      }),
    );
    const { status, errors } = await gateway.graphql('{ pets { id } }', { key: 'a' });
    expect(status).toBe(200);
    expect(errors?.[0]?.extensions.code).toBe('UPSTREAM_ERROR');
    expect(requests).toBe(1);
  });

  it('returns UPSTREAM_UNAVAILABLE if nothing listens, for reads and writes', async () => {
    const gateway = await before(() => undefined);
    const server = servers.at(-1) as Server;
    await new Promise((closed) => server.close(closed));
    for (const query of ['{ pets { id } }', ADD]) {
      const { status, errors, text } = await gateway.graphql(query, { key: 'a' });
      expect(status).toBe(200);
      expect(errors?.[0]?.extensions.code).toBe('UPSTREAM_UNAVAILABLE');
      expect(text).not.toMatch(/127\.0\.0\.1|ECONN|\bat /);
    }
    expect((await gateway.fetch('/readyz?backend=true')).status).toBe(503);
    expect((await gateway.fetch('/livez')).status).toBe(200);
  });

  it('returns UPSTREAM_TIMEOUT if connections are accepted but get no response', async () => {
    const gateway = await before(() => undefined);
    const { errors } = await gateway.graphql('{ pets { id } }', { key: 'a' });
    expect(errors?.[0]?.extensions.code).toBe('UPSTREAM_TIMEOUT');
  });
});

describe('the start of a gateway', () => {
  it.each<[string, Script]>([
    ['404', (_, response) => send(response, 404, { code: 'not_found', message: 'No such path.', status: 404 })],
    ['a page', (_, response) => send(response, 200, '<html>')],
    ['an object', (_, response) => send(response, 200, '{}')],
    ['a redirect', (_, response) => send(response, 302, '', { Location: '/v1/pets' })],
    ['401 without an Error body', (_, response) => send(response, 401, 'Who are you?')],
  ])('fails in one line if UPSTREAM_URL answers with %s', async (_, script) => {
    const upstream = await startScriptedUpstream(script);
    const url = upstream.url.replace(/v1$/, 'store');
    await expect(startProxyBefore(url)).rejects.toThrow(
      /^UPSTREAM_URL \S+\/store is no animal store: .* end in \/v1\.$/,
    );
    await upstream.close();
  });

  it.each<[string, Script]>([
    ['a list', answerAnimals],
    ['401', (_, response) => send(response, 401, REFUSAL)],
    ['429', (_, response) => send(response, 429, { code: 'rate_limited', message: 'No.', status: 429 })],
  ])('succeeds if UPSTREAM_URL answers a request without a key with %s', async (_, script) => {
    const upstream = await startScriptedUpstream(script);
    await (await startProxyBefore(upstream.url.replace(/v1$/, 'store'))).close();
    await upstream.close();
  });
});
