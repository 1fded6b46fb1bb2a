import { once } from 'node:events';
import { createServer, type RequestListener, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import {
  createPetClient,
  isPetError,
  type PetClient,
  type PetClientOptions,
  type PetError,
  type PetWait,
} from '../src/index.js';
import { findFreePort } from '../../../test/support/free-port.js';
import { startGateway, startProxyBefore, type Gateway, type ProxyOnly } from '../../../test/support/gateway.js';
import { startShortWindowStore, type ShortWindowStore } from '../../../test/support/short-window-store.js';
import { getFromLists, lookups } from './lookups.js';

/** Ids so far apart that none share a list, and each costs 1 also through lists. */
const upTo = (count: number): number[] => Array.from({ length: count }, (_, index) => 100 * (index + 1));
const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));
const failureOf = (call: Promise<unknown>): Promise<PetError & { retryAfter?: number }> =>
  call.then(
    () => Promise.reject(new Error('The call succeeded.')),
    (error: unknown) => error as PetError,
  );

function connect(url: string, key: string, options: Partial<PetClientOptions> = {}): PetClient {
  return createPetClient({ url: `${url}/graphql`, key, getFromLists, ...options });
}

/** The seconds that a message states. */
function readWaits(message: string): { readonly waited: number; readonly more: number; readonly maxWaitMs: number } {
  const pattern = /The call waited ([\d.]+) s and would have to wait ([\d.]+) s more, but maxWaitMs is (\d+)\.$/;
  const [waited = NaN, more = NaN, maxWaitMs = NaN] = (pattern.exec(message) ?? []).slice(1).map(Number);
  return { waited, more, maxWaitMs };
}

describe.concurrent('the waits for a window', () => {
  let store: ShortWindowStore;
  let gateway: ProxyOnly;

  beforeAll(async () => {
    store = await startShortWindowStore({ limit: 20, seconds: 3 });
    gateway = await startProxyBefore(store.url, lookups());
  });
  afterAll(async () => {
    await gateway.close();
    await store.close();
  });

  it('are told as they begin, and their sum is in the final error', async () => {
    const waits: PetWait[] = [];
    const client = connect(gateway.url, 'sum', { maxWaitMs: 4_000, onWait: (wait) => waits.push(wait) });
    await client.get(1);
    const results = await client.loadMany(upTo(70));
    const failures = results.filter(isPetError);
    expect(results.length - failures.length).toBe(39);
    expect(waits.map(({ code }) => code)).toEqual(['RATE_LIMITED']);
    const told = waits.reduce((sum, { waitMs }) => sum + waitMs, 0) / 1_000;
    for (const { message, ...error } of failures) {
      const { waited, more, maxWaitMs } = readWaits(message);
      expect(waited + more).toBeGreaterThan(4);
      expect(Math.abs(waited - told)).toBeLessThan(1);
      expect(more).toBeLessThanOrEqual(3);
      expect([maxWaitMs, error.code]).toEqual([4_000, 'RATE_LIMITED']);
      expect(error).toMatchObject({ retryAfter: Math.ceil(more) });
    }
  });

  it('may last longer in total than a call may wait, if each call waits less', async () => {
    const client = connect(gateway.url, 'calls', { maxWaitMs: 4_000 });
    await client.get(1);
    for (const count of [19, 20, 20]) {
      const results = await client.loadMany(upTo(count));
      expect(results.filter(isPetError)).toEqual([]);
    }
  });

  it('do not keep the callers from their results if the listener throws', async () => {
    const thrown: unknown[] = [];
    const note = (error: unknown): number => thrown.push(error);
    const before = process.listeners('uncaughtException');
    process.removeAllListeners('uncaughtException').on('uncaughtException', note);
    const onWait = (): void => {
      throw new Error('a bug of the page');
    };
    const client = connect(gateway.url, 'throws', { onWait });
    const results = await client.loadMany(upTo(30));
    process.off('uncaughtException', note);
    for (const listener of before) process.on('uncaughtException', listener);
    expect(results.filter(isPetError)).toEqual([]);
    expect(new Set(thrown.map(String))).toEqual(new Set(['Error: a bug of the page']));
  });
});

describe('a ban', () => {
  let gateway: Gateway;

  beforeAll(async () => {
    gateway = await startGateway('embedded', { BAN_AFTER: '1', BAN_SECONDS: '5' });
  });
  afterAll(() => gateway.close());

  it('is why calls fail until it ends, each with the time that is left', async () => {
    const { key } = await gateway.createKey({ plan: 'enterprise', limits: { perMinute: 1, perDay: 100 } });
    for (let use = 0; use < 3; use++) await gateway.graphql('{ pets { id } }', { key });
    const client = connect(gateway.url, key, { maxWaitMs: 0 });
    const first = await failureOf(client.list());
    await sleep(2_000);
    const second = await failureOf(client.list());
    expect([first.code, second.code]).toEqual(['KEY_BANNED', 'KEY_BANNED']);
    expect(first.retryAfter).toBeGreaterThan(3);
    expect(second.retryAfter).toBeLessThanOrEqual(3);
    for (const { message, retryAfter } of [first, second]) {
      expect(message).toMatch(/^The key kept exceeding its limit and is banned\. The call waited 0 s/);
      expect(Math.ceil(readWaits(message).more)).toBe(retryAfter);
    }
  });
});

describe('a store that cannot be reached', () => {
  it('is why also the queued calls fail', async () => {
    const url = `http://127.0.0.1:${await findFreePort()}`;
    const results = await connect(url, 'k', { maxWaitMs: 0 }).loadMany(upTo(150));
    expect(new Set(results.map((result) => isPetError(result) && result.code))).toEqual(new Set(['CONNECTION_FAILED']));
  });

  it('fails a call after seven attempts, with the sum of the waits between them', async () => {
    const url = `http://127.0.0.1:${await findFreePort()}`;
    const waits: PetWait[] = [];
    let requests = 0;
    const client = connect(url, 'k', {
      onWait: (wait) => waits.push(wait),
      fetch: (...request) => {
        requests += 1;
        return fetch(...request);
      },
    });
    const { message } = await failureOf(client.list());
    const [, origin, waited = 'NaN'] =
      /^(.*): the connection failed\. The call waited ([\d.]+) s\.$/.exec(message) ?? [];
    expect([origin, requests]).toEqual([url, 7]);
    expect(Number(waited)).toBeCloseTo(11.2, 0);
    expect(waits.map(({ code }) => code)).toEqual(Array<string>(6).fill('CONNECTION_FAILED'));
    // Some milliseconds of a wait may be over when it is told.
    const toldMs = waits.map(({ waitMs }) => Math.round(waitMs / 100) * 100);
    expect(toldMs).toEqual([200, 400, 800, 1_600, 3_200, 5_000]);
  });
});

/** Adds Rex for every request, but answers the requests of the given numbers with a status. */
function answer(numbers: readonly number[], init: ResponseInit): { fetch: typeof fetch; requests: RequestInit[] } {
  const requests: RequestInit[] = [];
  const reply: typeof fetch = async (_, request = {}) => {
    const isRefused = numbers.includes(requests.push(request));
    await sleep(100);
    if (isRefused) return new Response('', init);
    const fields = [...(request.body as string).matchAll(/(_\d+):addPet/g)];
    const pet = { id: '1', name: 'Rex', categoryId: '1', status: null };
    return Response.json({ data: Object.fromEntries(fields.map(([, alias]) => [alias, pet])) as object });
  };
  return { fetch: reply, requests };
}

describe('additions', () => {
  const rex = { name: 'Rex', categoryId: 1 };
  const url = 'http://store.example';

  it('may take longer than they may wait, because the time of the requests does not count', async () => {
    const { fetch, requests } = answer([2, 14], { status: 503 });
    const client = connect(url, 'k', { fetch, concurrency: 1, maxWaitMs: 800 });
    await Promise.all(Array.from({ length: 15 }, () => client.add(rex)));
    expect(requests).toHaveLength(17);
  });

  it('are not repeated without idempotency keys, also if they have their own', async () => {
    const { fetch, requests } = answer([1], { status: 503 });
    const client = connect(url, 'k', { fetch, idempotencyKeys: false });
    const failure = await failureOf(client.add(rex, { idempotencyKey: 'order-7' }));
    expect([failure.code, requests.length]).toEqual(['SERVICE_UNAVAILABLE', 1]);
  });

  it('wait after the refusal of one that is not repeated', async () => {
    const { fetch, requests } = answer([1], { status: 429, headers: { 'Retry-After': '60' } });
    const client = connect(url, 'k', { fetch, idempotencyKeys: false, maxWaitMs: 1_000 });
    const failures = await Promise.all(Array.from({ length: 9 }, () => failureOf(client.add(rex))));
    expect(failures.map(({ code }) => code)).toEqual(Array<string>(9).fill('RATE_LIMITED'));
    expect(requests).toHaveLength(1);
  });
});

describe('what a server states', () => {
  let server: Server | undefined;
  afterEach(() => {
    server?.closeAllConnections();
    server?.close();
  });

  async function serve(listener: RequestListener): Promise<string> {
    server = createServer(listener).listen(0, '127.0.0.1');
    await once(server, 'listening');
    return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  }

  it.each([
    ['a number of seconds', '7', 7],
    ['no whole number', '7.5', 1],
    ['a negative number', '-7', 1],
    ['two numbers', '1, 2099', 1],
    ['a word', 'tomorrow', 1],
    ['a date without a time zone', 'Fri, 31 Dec 2099 23:59:59', 1],
    ['a date that is over', 'Sun, 06 Nov 1994 08:49:37 GMT', 1],
    ['a date', () => new Date(Date.now() + 9_000).toUTCString(), 9],
    ['a date in a century', 'Thu, 31 Dec 2099 23:59:59 GMT', 86_400],
    ['more seconds than a day has', '99999999999999999999999', 86_400],
  ])('as Retry-After may be %s', async (_, stated, expected) => {
    const value = typeof stated === 'string' ? stated : stated();
    const url = await serve((__, response) => response.writeHead(429, { 'Retry-After': value }).end('slow down'));
    const error = await failureOf(connect(url, 'k', { maxWaitMs: 0 }).list());
    expect(error.code).toBe('RATE_LIMITED');
    expect(error.retryAfter).toBeLessThanOrEqual(expected);
    expect(error.retryAfter).toBeGreaterThanOrEqual(expected - 1);
    expect(Math.ceil(readWaits(error.message).more)).toBe(error.retryAfter);
  });

  it('as Retry-After may be a date by another clock', async () => {
    const url = await serve((_, response) => {
      const now = Date.now() + 7_200_000;
      const headers = { Date: new Date(now).toUTCString(), 'Retry-After': new Date(now + 9_000).toUTCString() };
      response.writeHead(429, headers).end();
    });
    expect((await failureOf(connect(url, 'k', { maxWaitMs: 0 }).list())).retryAfter).toBe(9);
  });

  it('about a price keeps no other call waiting', async () => {
    const url = await serve((request, response) => {
      request.setEncoding('utf8').on('data', (body: string) => {
        if (body.includes('dryRun')) return;
        response.setHeader('RateLimit-Policy', '"minute";q=5;w=60').setHeader('RateLimit', '"minute";r=1;t=50');
        response.end('{"data":{"_0":[]}}');
      });
    });
    const client = connect(url, 'k', { maxWaitMs: 0 });
    const controller = new AbortController();
    const price = client.price('{ pets { id } }', {}, controller);
    for (let use = 0; use < 3; use++) expect(await client.list()).toEqual([]);
    controller.abort('enough');
    await expect(price).rejects.toBe('enough');
  });

  it.each([
    [400, [4]],
    [404, [4]],
    [413, [4, 2, 1, 1, 1, 1]],
    [422, [4, 2, 1, 1, 1, 1]],
  ])('as BAD_REQUEST with status %i may be about the size of the request', async (status, expected) => {
    const sizes: number[] = [];
    const url = await serve((request, response) => {
      request.setEncoding('utf8').on('data', (body: string) => {
        sizes.push([...body.matchAll(/_\d+:pet/g)].length);
        response.writeHead(status).end('{"errors":[{"message":"No.","extensions":{"code":"BAD_REQUEST"}}]}');
      });
    });
    const results = await connect(url, 'k').loadMany(upTo(4));
    expect(new Set(results.map((result) => isPetError(result) && result.code))).toEqual(new Set(['BAD_REQUEST']));
    expect(sizes).toEqual(expected);
  });

  it('as retryAfter may be absurd', async () => {
    const body = '{"errors":[{"message":"No.","extensions":{"code":"KEY_BANNED","retryAfter":1e999,"requestId":"r"}}]}';
    const url = await serve((_, response) => response.writeHead(429).end(body));
    const error = await failureOf(connect(url, 'k', { maxWaitMs: 3_600_000 }).list());
    expect(error).toMatchObject({ code: 'KEY_BANNED', retryAfter: 86_400, requestId: 'r' });
  });

  it.each([
    ['a window of more than a day', '"minute";q=60;w=60', '"minute";r=0;t=99999999999999999999'],
    ['a limit of 0', '"minute";q=0;w=60', '"minute";r=0;t=0'],
    ['a name without end', `"${'a'.repeat(6_000)}`, `"${'"a'.repeat(3_000)}`],
    ['a number without end', `"m";q=${'1'.repeat(6_000)}`, `"m";r=${'1'.repeat(6_000)}`],
    ['something else', '60, 60;w=60', '0'],
  ])('as limits may be %s, which stops nothing', async (_, policy, state) => {
    const url = await serve((__, response) => {
      response.writeHead(200, { 'RateLimit-Policy': policy, RateLimit: state });
      response.end('{"data":{"_0":[]}}');
    });
    const client = connect(url, 'k', { maxWaitMs: 0 });
    for (let use = 0; use < 3; use++) expect(await client.list()).toEqual([]);
  });

  it('may arrive one byte at a time', async () => {
    const pet = { id: '1', name: 'Bella'.repeat(51), categoryId: '1', status: null };
    const body = JSON.stringify({ data: { _0: Array.from({ length: 100 }, () => pet) } });
    const url = await serve((_, response) => {
      for (const byte of body) response.write(byte);
      response.end();
    });
    expect(await connect(url, 'k').list()).toEqual(Array.from({ length: 100 }, () => pet));
  });

  it('is TIMED_OUT if it has no end', async () => {
    const url = await serve((_, response) => void response.write('{"data":'));
    const { code, message } = await failureOf(connect(url, 'k', { timeoutMs: 300, maxWaitMs: 0 }).list());
    expect([code, message.slice(0, message.indexOf('. The'))]).toEqual([
      'TIMED_OUT',
      `${url}: no complete response within 300 ms`,
    ]);
  });

  it('is CONNECTION_FAILED if it breaks off', async () => {
    const url = await serve((_, response) => response.write('{"data":', () => response.destroy()));
    const { code, message } = await failureOf(connect(url, 'k', { maxWaitMs: 0 }).list());
    expect([code, message]).toEqual(['CONNECTION_FAILED', expect.stringContaining(`${url}: the connection failed.`)]);
  });

  it('about a key is TIMED_OUT if it has no end, and CONNECTION_FAILED if it breaks off', async () => {
    const url = await serve(({ url: path }, response) => {
      response.write('{"id":', () => path === '/v1/key' || response.destroy());
    });
    const client = connect(url, 'k', { timeoutMs: 300 });
    expect(await failureOf(client.key())).toMatchObject({ code: 'TIMED_OUT' });
    expect(await failureOf(client.usage())).toMatchObject({ code: 'CONNECTION_FAILED' });
  });

  it('is about every field if an error has no path', async () => {
    const url = await serve((_, response) => response.end('{"data":{"_0":null},"errors":[{"message":"Boom."}]}'));
    expect(await failureOf(connect(url, 'k').list())).toMatchObject({ code: 'UNRECOGNIZED', message: 'Boom.' });
  });
});
