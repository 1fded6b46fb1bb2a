import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { digestApiKey } from '../../src/access/api-key.js';
import { createMemoryLedger } from '../../src/access/memory-ledger.js';
import type { Session, UpstreamKey } from '../../src/access/session.js';
import { monotonicNow } from '../../src/clock.js';
import { createProxyAccess } from '../../src/proxy/access.js';
import { createKeys, KeyState } from '../../src/proxy/keys.js';
import { createLimitsParser } from '../../src/proxy/limits.js';
import { fromAnswer } from '../../src/proxy/wire.js';
import { startGateway, startProxyBefore, type Gateway, type ProxyOnly } from '../support/gateway.js';
import {
  answerAnimals,
  freeLimits,
  send,
  startScriptedUpstream,
  type Script,
  type ScriptedUpstream,
} from '../support/scripted-upstream.js';

/** Tells a key of an answer with an Error body. */
function learn(key: KeyState, status: number, headers: Readonly<Record<string, string>> = {}, code = 'c'): void {
  const body = JSON.stringify({ code, message: 'm', status });
  const answer = { status, header: (name: string) => headers[name], body } as const;
  key.learn(answer, monotonicNow(), status === 401 || status === 429 ? fromAnswer(answer) : undefined);
}

const REFUSED = { code: 'unauthorized', message: 'No.', status: 401 };
const RATE_LIMIT = '{ rateLimit { plan windows { seconds limit remaining } } }';

describe('limits learned from an upstream', () => {
  let upstream: ScriptedUpstream;
  let gateway: ProxyOnly;

  beforeEach(async () => {
    upstream = await startScriptedUpstream();
    gateway = await startProxyBefore(upstream.url);
  });
  afterEach(async () => {
    await gateway.close();
    await upstream.close();
  });

  it('are unknown until the upstream responds: free operations are served without limit headers', async () => {
    const { status, data, headers } = await gateway.graphql('{ __typename rateLimit { plan } }', { key: 'a' });
    expect(status).toBe(200);
    expect(data).toEqual({ __typename: 'Query', rateLimit: null });
    expect(headers.get('x-ratelimit-limit')).toBeNull();
    expect(headers.get('ratelimit')).toBeNull();
  });

  it('are reported to the client as the upstream stated them, without a plan', async () => {
    upstream.play((_, response) => send(response, 200, '[]', freeLimits(41)));
    const { headers } = await gateway.graphql('{ pets { id } }', { key: 'a' });
    expect(headers.get('x-ratelimit-limit')).toBe('60');
    expect(headers.get('x-ratelimit-remaining')).toBe('41');
    expect(headers.get('ratelimit-policy')).toBe('"minute";q=60;w=60, "day";q=1000;w=86400');
    const { data } = await gateway.graphql(RATE_LIMIT, { key: 'a' });
    expect(data.rateLimit).toEqual({
      plan: null,
      windows: [
        { seconds: 60, limit: 60, remaining: 41 },
        { seconds: 86400, limit: 1000, remaining: 1000 },
      ],
    });
  });

  it('are reported minus the requests in flight, of which equal fields share one', async () => {
    upstream.play((_, response) => send(response, 200, '[]', freeLimits(60)));
    await gateway.graphql('{ pets { id } }', { key: 'a' });
    upstream.play(({ path }, response) => {
      if (path.startsWith('/pets?')) send(response, 200, '[]', freeLimits(60));
    });
    const lists = [1, 2, 3, 4, 5].map((n) => `list${n}: pets { id }`).join(' ');
    void gateway.graphql(`{ ${lists} one: pet(id: 1) { id } two: pet(id: 2) { id } }`, { key: 'a' });
    await vi.waitFor(() => expect(upstream.seen).toHaveLength(3));
    await sleep(50);
    const { data } = await gateway.graphql('{ rateLimit { windows { remaining } } }', { key: 'a' });
    expect(data.rateLimit).toEqual({ windows: [{ remaining: 58 }, { remaining: 998 }] });
  });

  it('come from X-RateLimit-* if RateLimit is absent', async () => {
    const reset = Math.floor(Date.now() / 1_000) + 30;
    upstream.play((_, response) =>
      send(response, 200, '[]', {
        'X-RateLimit-Limit': '60',
        'X-RateLimit-Remaining': '12',
        'X-RateLimit-Reset': String(reset),
      }),
    );
    const { headers } = await gateway.graphql('{ pets { id } }', { key: 'a' });
    expect(headers.get('x-ratelimit-remaining')).toBe('12');
    expect(Math.abs(Number(headers.get('x-ratelimit-reset')) - reset)).toBeLessThanOrEqual(1);
    const { data } = await gateway.graphql(RATE_LIMIT, { key: 'a' });
    expect(data.rateLimit).toEqual({ plan: null, windows: [{ seconds: null, limit: 60, remaining: 12 }] });
  });

  it('refuse operations that no longer fit or never will, without an upstream request', async () => {
    upstream.play((_, response) => send(response, 200, '[]', freeLimits(2)));
    await gateway.graphql('{ pets { id } }', { key: 'a' });
    upstream.seen.length = 0;
    const three = await gateway.graphql('{ a: pet(id: 1) { id } b: pet(id: 2) { id } c: pet(id: 3) { id } }', {
      key: 'a',
    });
    expect(three.status).toBe(429);
    expect(three.errors?.[0]?.extensions).toMatchObject({ code: 'RATE_LIMITED', cost: 3 });
    expect(three.headers.get('x-ratelimit-remaining')).toBe('2');
    const aliases = Array.from({ length: 61 }, (_, i) => `p${i}: pet(id: ${i}) { id }`).join(' ');
    const tooLarge = await gateway.graphql(`{ ${aliases} }`, { key: 'a' });
    expect(tooLarge.status).toBe(400);
    expect(tooLarge.errors?.[0]?.extensions).toMatchObject({ code: 'OPERATION_TOO_LARGE', cost: 61 });
    expect(upstream.seen).toEqual([]);
  });

  it('count requests in flight as used', async () => {
    upstream.play((_, response) => send(response, 200, '[]', freeLimits(2)));
    await gateway.graphql('{ pets { id } }', { key: 'a' });
    let left = 2;
    upstream.play((_, response) => void setTimeout(() => send(response, 200, '[]', freeLimits(--left)), 100));
    const answers = await Promise.all(
      Array.from({ length: 6 }, (_, i) => gateway.graphql(`{ pets(limit: ${i + 1}) { id } }`, { key: 'a' })),
    );
    expect(answers.map(({ status }) => status).sort()).toEqual([200, 200, 429, 429, 429, 429]);
    expect(upstream.seen).toHaveLength(2);
  });

  it('that are still unknown cannot be exceeded: one request goes first', async () => {
    let left = 60;
    upstream.play((_, response) => {
      left -= 1;
      if (left < 0) send(response, 429, { code: 'rate_limited', message: 'No.', status: 429 }, { 'Retry-After': '60' });
      else void setTimeout(() => send(response, 200, '[]', freeLimits(left)), 20);
    });
    const answers = await Promise.all(
      Array.from({ length: 150 }, (_, i) => gateway.graphql(`{ pets(limit: ${(i % 100) + 1}) { id } }`, { key: 'a' })),
    );
    expect(answers.filter(({ status }) => status === 200).length).toBeGreaterThanOrEqual(60);
    expect(answers.filter(({ status }) => status !== 200 && status !== 429)).toEqual([]);
    expect(left).toBeGreaterThanOrEqual(0);
  });

  it('start a cooldown of the key on the first 429, and send a single request when it ends', async () => {
    let at429 = 0;
    upstream.play((_, response) => {
      at429 = Date.now();
      send(response, 429, { code: 'rate_limited', message: 'No.', status: 429 }, { 'Retry-After': '2' });
    });
    expect((await gateway.graphql('{ pets { id } }', { key: 'a' })).status).toBe(429);
    upstream.play((_, response, index) => void setTimeout(() => send(response, 200, '[]', freeLimits(59 - index)), 50));
    const during = await gateway.graphql('{ pets { id } }', { key: 'a' });
    expect(during.status).toBe(429);
    expect(during.errors?.[0]?.extensions.code).toBe('RATE_LIMITED');
    expect(Number(during.headers.get('retry-after'))).toBeLessThanOrEqual(2);
    const other = await gateway.graphql('{ pets { id } }', { key: 'b' });
    expect(other.status).toBe(200);
    expect(upstream.seen).toHaveLength(1);

    await sleep(2_050 - (Date.now() - at429));
    const after = await Promise.all(
      Array.from({ length: 5 }, (_, i) => gateway.graphql(`{ pets(limit: ${i + 1}) { id } }`, { key: 'a' })),
    );
    expect(after.map(({ status }) => status)).toEqual([200, 200, 200, 200, 200]);
    const [first, ...others] = upstream.seen.filter(({ headers }) => headers.authorization === 'Bearer a');
    expect(first?.at).toBeGreaterThanOrEqual(at429 + 2_000);
    for (const request of others) expect(request.at - (first?.at ?? 0)).toBeGreaterThanOrEqual(45);
  });

  it('that are still unknown are not exceeded by requests that are sent again', async () => {
    upstream.play((_, response) => send(response, 200, '[]', freeLimits(3)));
    await gateway.graphql('{ pets { id } }', { key: 'a' });
    upstream.seen.length = 0;
    upstream.play((_, response, index) =>
      index < 2 ? send(response, 503, '{}') : void setTimeout(() => send(response, 200, '[]', freeLimits(1)), 500),
    );
    const two = gateway.graphql('{ a: pets(limit: 1) { id } b: pets(limit: 2) { id } }', { key: 'a' });
    await expect.poll(() => upstream.seen.length).toBeGreaterThan(2);
    const aliases = '{ c: pets(limit: 3) { id } d: pets(limit: 4) { id } e: pets(limit: 5) { id } }';
    expect((await gateway.graphql(aliases, { key: 'a' })).status).toBe(429);
    expect((await two).errors).toBeUndefined();
  });

  it('say during a cooldown which operations never fit', async () => {
    upstream.play((_, response) =>
      send(response, 429, { code: 'rate_limited', message: 'No.', status: 429 }, freeLimits(0)),
    );
    expect((await gateway.graphql('{ pets { id } }', { key: 'a' })).status).toBe(429);
    const aliases = Array.from({ length: 61 }, (_, i) => `p${i}: pet(id: ${i}) { id }`).join(' ');
    const tooLarge = await gateway.graphql(`{ ${aliases} }`, { key: 'a' });
    expect(tooLarge.status).toBe(400);
    expect(tooLarge.errors?.[0]?.extensions).toMatchObject({ code: 'OPERATION_TOO_LARGE', cost: 61 });
    expect((await gateway.graphql('{ pets { id } }', { key: 'a' })).errors?.[0]?.extensions.code).toBe('RATE_LIMITED');
    expect(upstream.seen).toHaveLength(1);
  });

  it('that the upstream does not state any more apply no more, unless the response is an error', async () => {
    upstream.play((_, response) => send(response, 200, '[]', freeLimits(1)));
    await gateway.graphql('{ pets { id } }', { key: 'a' });
    upstream.play(({ path }, response) => send(response, path.includes('sold') ? 500 : 200, '[]'));
    await gateway.graphql('{ pets(status: SOLD) { id } }', { key: 'a' });
    upstream.play((_, response) => send(response, 200, '<title>Maintenance</title>'));
    await gateway.graphql('{ pets { id } }', { key: 'a' });
    upstream.play((_, response) => send(response, 200, '[]'));
    const two = '{ a: pets(limit: 1) { id } b: pets(limit: 2) { id } }';
    expect((await gateway.graphql(two, { key: 'a' })).status).toBe(429);
    const last = await gateway.graphql('{ pets { id } }', { key: 'a' });
    expect(last.headers.get('x-ratelimit-remaining')).toBeNull();
    expect((await gateway.graphql(two, { key: 'a' })).errors).toBeUndefined();
  });

  const trio = (limit: number, remaining: number, reset: number) => ({
    'X-RateLimit-Limit': String(limit),
    'X-RateLimit-Remaining': String(remaining),
    'X-RateLimit-Reset': String(reset),
  });
  const nowSeconds = Math.floor(Date.now() / 1_000);
  it.each<[string, Record<string, string>]>([
    ['a limit of 0', { ...freeLimits(0), 'RateLimit-Policy': '"minute";q=0;w=60', RateLimit: '"minute";r=0;t=60' }],
    ['a limit of 0 in X-RateLimit-*', trio(0, 0, nowSeconds + 60)],
    ['a reset in milliseconds', trio(60, 0, (nowSeconds + 3_600) * 1_000)],
    ['a reset in the far future', trio(60, 0, 99_999_999_999)],
    ['a Date that is a year wrong', { ...trio(60, 0, nowSeconds + 3_600), Date: 'Fri, 21 Nov 2025 00:00:00 GMT' }],
    ['a day that is used up', freeLimits(60, 0)],
  ])('never lock out a key that the upstream still serves: %s', async (_, headers) => {
    upstream.play((_request, response) => send(response, 200, '[]', headers));
    for (let i = 1; i <= 3; i += 1) {
      const { status, errors } = await gateway.graphql(`{ a: pets(limit: ${i}) { id } b: pets { id } }`, { key: 'a' });
      expect([status, errors]).toEqual([200, undefined]);
    }
  });

  it('end with their window; then one request goes first again, and a raised limit is learned', async () => {
    const limits = (limit: number, left: number) => ({
      'RateLimit-Policy': `"short";q=${limit};w=1`,
      RateLimit: `"short";r=${left};t=1`,
    });
    upstream.play((_, response) => send(response, 200, '[]', limits(2, 1)));
    await gateway.graphql('{ pets { id } }', { key: 'a' });
    const three = '{ a: pet(id: 1) { id } b: pet(id: 2) { id } c: pet(id: 3) { id } }';
    expect((await gateway.graphql(three, { key: 'a' })).errors?.[0]?.extensions.code).toBe('OPERATION_TOO_LARGE');
    await sleep(1_050);
    upstream.play(({ path }, response) =>
      setTimeout(() => send(response, 200, `{"id":${path.slice(6)},"name":"x","categoryId":1}`, limits(9, 8)), 50),
    );
    expect((await gateway.graphql(three, { key: 'a' })).errors).toBeUndefined();
    const [first, ...others] = upstream.seen;
    expect(others).toHaveLength(2);
    for (const other of others) expect(other.at - (first?.at ?? 0)).toBeGreaterThanOrEqual(45);
  });

  it.each([
    ['costs more than the limit', 8, 200, 'OPERATION_TOO_LARGE'],
    ['does not fit after a cooldown', 5, 429, 'RATE_LIMITED'],
  ])('send one request of an operation that %s, and refuse all the rest', async (_, cost, status, code) => {
    const limits = (remaining: number) => ({
      'RateLimit-Policy': '"short";q=5;w=1',
      RateLimit: `"short";r=${remaining};t=1`,
    });
    const body = status === 200 ? '[]' : { code: 'c', message: 'm', status };
    upstream.play((_request, response) => send(response, status, body, limits(0)));
    await gateway.graphql('{ pets { id } }', { key: 'a' });
    await sleep(1_050);
    upstream.play((_request, response) => send(response, 201, '{"id":7,"name":"New","categoryId":1}', limits(3)));
    const add = 'addPet(input: { name: "x", categoryId: 1 }) { id }';
    const additions = Array.from({ length: cost }, (_item, n) => `a${n}: ${add}`).join(' ');
    const { errors } = await gateway.graphql(`mutation { ${additions} }`, { key: 'a' });
    expect(upstream.seen).toHaveLength(1);
    expect(errors?.map(({ extensions }) => extensions.code)).toEqual(Array(cost - 1).fill(code));
  });

  it('admit the operations of a batch in order after the window has ended', async () => {
    const limits = { 'RateLimit-Policy': '"short";q=5;w=1', RateLimit: '"short";r=1;t=1' };
    upstream.play((_, response) => send(response, 200, '[]', limits));
    await gateway.graphql('{ pets { id } }', { key: 'a' });
    await sleep(1_050);
    upstream.play(answerAnimals);
    const list = (...sizes: number[]) => ({
      query: `{ ${sizes.map((n) => `list${n}: pets(limit: ${n}) { id }`).join(' ')} }`,
    });
    const response = await gateway.fetch('/graphql', {
      method: 'POST',
      headers: { 'Content-Type': 'application/json', Authorization: 'Bearer a' },
      body: JSON.stringify([list(1, 2, 3), list(4, 5, 6), list(7, 8)]),
    });
    const entries = (await response.json()) as { errors?: { extensions: { code: string } }[] }[];
    expect(entries.map(({ errors }) => errors?.[0]?.extensions.code)).toEqual([undefined, 'RATE_LIMITED', undefined]);
    expect(upstream.seen).toHaveLength(5);
  });

  it('end with their window, whose slow requests delay no others', async () => {
    upstream.play(({ path }, response) => {
      if (path.includes('sold')) return;
      send(response, 200, '[]', { 'RateLimit-Policy': '"short";q=50;w=1', RateLimit: '"short";r=49;t=1' });
    });
    await gateway.graphql('{ pets { id } }', { key: 'a' });
    const slow = gateway.graphql('{ pets(status: SOLD) { id } }', { key: 'a' });
    await sleep(1_050);
    const startedAt = performance.now();
    const { data } = await gateway.graphql('{ pets { id } rateLimit { windows { limit remaining } } }', { key: 'a' });
    expect(data).toEqual({
      pets: [],
      rateLimit: { windows: [{ limit: 50, remaining: expect.any(Number) as number }] },
    });
    expect(performance.now() - startedAt).toBeLessThan(500);
    await slow;
  });

  it('that the first response states refuse what does not fit any more', async () => {
    upstream.play((_, response, index) => send(response, 200, '[]', freeLimits(1 - index)));
    const { errors } = await gateway.graphql('{ a: pets(limit: 1) { id } b: pets(limit: 2) { id } c: pets { id } }', {
      key: 'a',
    });
    expect(errors?.map(({ extensions }) => extensions.code)).toEqual(['RATE_LIMITED']);
    expect(upstream.seen).toHaveLength(2);
  });

  it('of many windows are the same for headers, admission and the field', async () => {
    const names = Array.from({ length: 12 }, (_, n) => n + 60);
    const headers = {
      'RateLimit-Policy': names.map((n) => `"w${n}";q=100;w=${n}`).join(),
      RateLimit: names.map((n) => `"w${n}";r=${n === 71 ? 1 : 99};t=${n}`).join(),
    };
    upstream.play((_, response) => send(response, 200, '[]', headers));
    await gateway.graphql('{ pets { id } }', { key: 'a' });
    const answer = await gateway.graphql(RATE_LIMIT, { key: 'a' });
    expect(answer.headers.get('x-ratelimit-remaining')).toBe('99');
    expect((answer.data.rateLimit as { windows: unknown[] }).windows).toHaveLength(8);
    const three = '{ a: pets(limit: 1) { id } b: pets(limit: 2) { id } c: pets(limit: 3) { id } }';
    expect((await gateway.graphql(three, { key: 'a' })).errors).toBeUndefined();
  });

  it('do not depend on the address of a key that was accepted before', async () => {
    const refuse: Script = ({ headers }, response) =>
      headers.authorization === 'Bearer good' ? send(response, 200, '[]') : send(response, 401, REFUSED);
    upstream.play(refuse);
    await gateway.graphql('{ pets { id } }', { key: 'good' });
    upstream.play((_, response) => send(response, 401, REFUSED));
    expect((await gateway.graphql('{ pets { id } }', { key: 'good' })).status).toBe(401);
    for (let i = 0; i < 60; i += 1) await gateway.graphql('{ pets { id } }', { key: `bad-${i}` });
    upstream.play(refuse);
    await sleep(5_100);
    expect((await gateway.graphql('{ pets { id } }', { key: 'good' })).status).toBe(200);
  });

  it('of a banned key refuse even free operations', async () => {
    upstream.play((_, response) =>
      send(response, 429, { code: 'key_banned', message: 'Banned.', status: 429 }, { 'Retry-After': '30' }),
    );
    await gateway.graphql('{ pets { id } }', { key: 'a' });
    const free = await gateway.graphql('{ rateLimit { plan } }', { key: 'a' });
    expect(free.status).toBe(429);
    expect(free.errors?.[0]?.extensions.code).toBe('KEY_BANNED');
  });

  it('cache a 401 for five seconds, per key', async () => {
    upstream.play(({ headers }, response) =>
      headers.authorization === 'Bearer bad'
        ? send(response, 401, { code: 'unauthorized', message: 'No.', status: 401 })
        : send(response, 200, '[]'),
    );
    for (let i = 0; i < 5; i++) {
      const { status, headers } = await gateway.graphql('{ pets { id } }', { key: 'bad' });
      expect(status).toBe(401);
      expect(headers.get('x-ratelimit-remaining')).toBe(String(59 - i));
    }
    expect(upstream.seen).toHaveLength(1);
    expect((await gateway.graphql('{ pets { id } }', { key: 'good' })).status).toBe(200);
  });
});

describe('a batch of a key without known limits', () => {
  it('does not wait for itself', async () => {
    const upstream = await startScriptedUpstream(answerAnimals);
    const gateway = await startProxyBefore(upstream.url);
    const response = await gateway.fetch('/graphql', {
      method: 'POST',
      headers: { 'Content-Type': 'application/json', Authorization: 'Bearer a' },
      body: JSON.stringify([{ query: '{ pets { id } }' }, { query: '{ pet(id: 3) { id } }' }]),
    });
    expect(await response.json()).toMatchObject([{ data: { pets: [{ id: '1' }] } }, { data: { pet: { id: '3' } } }]);
    await gateway.close();
    await upstream.close();
  }, 4_000);
});

it.each([true, false])(
  'a batch whose key becomes known meanwhile counts as a whole (key known before: %s)',
  async (was) => {
    const findKey = createKeys();
    const observer = { admitted: () => undefined, refused: () => undefined };
    const defaultLedger = createMemoryLedger();
    const addressLedger = createMemoryLedger();
    // The default plan makes each admission wait, as Redis does.
    const access = createProxyAccess({
      findKey,
      addressLedger,
      defaultPlan: 'business',
      defaultLedger,
      cooldowns: undefined,
      observer,
    });
    const key = findKey(digestApiKey('a'));
    const limits = freeLimits(10);
    const lowerCase = { 'ratelimit-policy': limits['RateLimit-Policy'] ?? '', ratelimit: limits.RateLimit ?? '' };
    if (was) learn(key, 429, { ...lowerCase, 'retry-after': '0' });
    await sleep(was ? 1_050 : 0);
    const batch = access.open('Bearer a', '192.0.2.1') as Session & UpstreamKey;
    await batch.admit(4);
    const second = batch.admit(4);
    learn(key, 200, lowerCase);
    await second;
    expect(key.inFlight).toBe(8);
    for (let i = 0; i < 8; i++) expect(batch.start()).toBeUndefined();
    expect(key.inFlight).toBe(8);
    batch.close?.();
    expect(key.inFlight).toBe(0);
  },
);

it('numbers that refuse an operation for long are tried once they are old, and count if the answer confirms them', () => {
  const key = new KeyState(createLimitsParser());
  const answer = (remaining: number): void =>
    learn(key, 200, { 'ratelimit-policy': '"day";q=10;w=86400', ratelimit: `"day";r=${remaining};t=9999` });
  const startedAt = performance.now();
  const clock = vi.spyOn(performance, 'now');
  answer(1);
  expect(key.findLimit(2)).toMatchObject({ code: 'rate_limited' });
  clock.mockImplementation(() => startedAt + 61_000);
  expect([key.findLimit(2), key.isUnknown]).toEqual([undefined, true]);
  answer(0);
  expect(key.isUnknown).toBe(false);
  expect(key.windows).toMatchObject([{ name: 'day', remaining: 0 }]);
  vi.restoreAllMocks();
});

it('numbers that never admit an operation are tried once they are old', () => {
  const key = new KeyState(createLimitsParser());
  const startedAt = performance.now();
  const clock = vi.spyOn(performance, 'now');
  learn(key, 200, { 'ratelimit-policy': '"day";q=10;w=86400', ratelimit: '"day";r=0;t=9999' });
  expect(key.findLimit(11)).toMatchObject({ code: 'operation_too_large' });
  clock.mockImplementation(() => startedAt + 61_000);
  expect([key.findLimit(11), key.isUnknown]).toEqual([undefined, true]);
  vi.restoreAllMocks();
});

it.each([401, 429])('a late answer to an earlier request does not undo that one goes first after a %i', (status) => {
  const key = new KeyState(createLimitsParser());
  const startedAt = performance.now();
  const clock = vi.spyOn(performance, 'now');
  const sentAt = monotonicNow();
  learn(key, status, { 'retry-after': '1' });
  key.learn({ status: 200, header: () => undefined }, sentAt);
  clock.mockImplementation(() => startedAt + 6_000);
  expect([key.findRefusal(), key.isUnknown]).toEqual([undefined, true]);
  learn(key, 200);
  expect(key.isUnknown).toBe(false);
  vi.restoreAllMocks();
});

it('a 429 with a challenge is a 401 for a key that was never accepted, and a limit for any other', () => {
  const headers = { 'retry-after': '30', 'www-authenticate': 'Bearer' };
  const unknown = new KeyState(createLimitsParser());
  learn(unknown, 429, headers);
  expect(unknown.cooldown).toBeUndefined();
  const accepted = new KeyState(createLimitsParser());
  learn(accepted, 200);
  learn(accepted, 429, headers);
  expect(accepted.cooldown).toMatchObject({ code: 'rate_limited' });
  // A revoked key gets such an answer, too, with the limits of the gateway's address.
  const revoked = new KeyState(createLimitsParser());
  learn(revoked, 200, { 'ratelimit-policy': '"day";q=10000;w=86400', ratelimit: '"day";r=9000;t=80000' });
  learn(revoked, 429, { ...headers, 'ratelimit-policy': '"minute";q=60;w=60', ratelimit: '"minute";r=0;t=30' });
  expect(revoked.windows).toMatchObject([{ name: 'day', remaining: 9_000 }]);
});

it('a late answer of an earlier window says nothing about the one that has opened since', () => {
  const key = new KeyState(createLimitsParser());
  const answer = (left: number, seconds: number) => {
    const headers: Readonly<Record<string, string>> = {
      'ratelimit-policy': '"minute";q=60;w=60',
      ratelimit: `"minute";r=${left};t=${seconds}`,
    };
    return { status: 200, header: (name: string) => headers[name] };
  };
  const sentAt = monotonicNow();
  key.learn(answer(59, 60), sentAt);
  key.learn(answer(0, 5), sentAt);
  expect(key.windows).toMatchObject([{ remaining: 59 }]);
});

describe('a long cooldown', () => {
  const startedAt = performance.now();
  let later = 0;

  beforeEach(() => {
    vi.spyOn(performance, 'now').mockImplementation(() => startedAt + later);
  });
  afterEach(() => {
    vi.restoreAllMocks();
    later = 0;
  });

  it('lets one request a minute go first, and ends when the upstream serves it', () => {
    const key = new KeyState(createLimitsParser());
    learn(key, 429, { 'retry-after': '40000' });
    expect(key.findRefusal()).toMatchObject({ code: 'rate_limited', retryAfter: 40_000 });
    later = 61_000;
    expect([key.findRefusal(), key.isUnknown]).toEqual([undefined, true]);
    learn(key, 429, { 'retry-after': '39939' });
    expect(key.findRefusal()).toMatchObject({ code: 'rate_limited', retryAfter: 39_939 });
    later = 122_000;
    expect([key.findRefusal(), key.isUnknown]).toEqual([undefined, true]);
    learn(key, 200, {});
    expect([key.findRefusal(), key.isUnknown]).toEqual([undefined, false]);
  });

  it('of a banned key ends when the upstream has said', () => {
    const key = new KeyState(createLimitsParser());
    learn(key, 429, { 'retry-after': '300' }, 'key_banned');
    later = 299_000;
    expect(key.findRefusal(0)).toMatchObject({ code: 'key_banned', retryAfter: 1 });
    later = 300_001;
    expect(key.findRefusal()).toBeUndefined();
  });

  it('of a banned key outlasts a 401 to another request, whichever comes first', () => {
    for (const statuses of [
      [429, 401],
      [401, 429],
    ]) {
      later = 0;
      const key = new KeyState(createLimitsParser());
      for (const status of statuses) learn(key, status, { 'retry-after': '300' }, 'key_banned');
      expect(key.findRefusal()).toMatchObject({ code: 'unauthorized' });
      later = 6_000;
      expect(key.findRefusal()).toMatchObject({ code: 'key_banned' });
    }
  });
});

describe('DEFAULT_PLAN', () => {
  it('limits keys whose limits the upstream does not state, from their first request', async () => {
    const upstream = await startScriptedUpstream(answerAnimals);
    const gateway = await startProxyBefore(upstream.url, { DEFAULT_PLAN: 'free' });
    const answers = await Promise.all(
      Array.from({ length: 80 }, (_, i) => gateway.graphql(`{ pet(id: ${i}) { id } }`, { key: 'a' })),
    );
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(60);
    expect(upstream.seen).toHaveLength(60);
    const { data } = await gateway.graphql(RATE_LIMIT, { key: 'a' });
    expect(data.rateLimit).toMatchObject({ plan: 'FREE', windows: [{ remaining: 0 }, { remaining: 940 }] });
    await gateway.close();
    await upstream.close();
  });

  it('admits the operations of the first batch of a key in order', async () => {
    const upstream = await startScriptedUpstream(answerAnimals);
    const gateway = await startProxyBefore(upstream.url, { DEFAULT_PLAN: 'free' });
    const batch = Array.from({ length: 20 }, (_, i) => ({
      query: `{ ${[0, 1, 2, 3].map((j) => `p${j}: pet(id: ${4 * i + j}) { id }`).join(' ')} }`,
    }));
    const response = await gateway.fetch('/graphql', {
      method: 'POST',
      headers: { 'Content-Type': 'application/json', Authorization: 'Bearer a' },
      body: JSON.stringify(batch),
    });
    const entries = (await response.json()) as { errors?: { extensions: { code: string } }[] }[];
    expect(entries.map(({ errors }) => errors?.map(({ extensions }) => extensions.code).join() ?? 'ok')).toEqual([
      ...Array<string>(15).fill('ok'),
      ...Array<string>(5).fill('RATE_LIMITED'),
    ]);
    expect(upstream.seen).toHaveLength(60);
    expect(response.headers.get('x-ratelimit-remaining')).toBe('0');
    await gateway.close();
    await upstream.close();
  });

  it('refuses as a whole a first operation that costs more than the plan allows', async () => {
    const upstream = await startScriptedUpstream(answerAnimals);
    const gateway = await startProxyBefore(upstream.url, { DEFAULT_PLAN: 'free' });
    const lookups = Array.from({ length: 61 }, (_, i) => `p${i}: pet(id: ${i}) { id }`).join(' ');
    const { status, errors } = await gateway.graphql(`{ ${lookups} }`, { key: 'a' });
    expect([status, errors?.[0]?.extensions.code]).toEqual([400, 'OPERATION_TOO_LARGE']);
    expect(upstream.seen).toEqual([]);
    await gateway.close();
    await upstream.close();
  });

  it('still says what is left after a 429 that states no limits', async () => {
    const upstream = await startScriptedUpstream((_, response, index) =>
      index < 10
        ? send(response, 200, '[]')
        : send(response, 429, { code: 'c', message: 'm', status: 429 }, { 'Retry-After': '30' }),
    );
    const gateway = await startProxyBefore(upstream.url, { DEFAULT_PLAN: 'free' });
    for (let i = 0; i < 10; i++) await gateway.graphql('{ pets { id } }', { key: 'a' });
    const { status, headers } = await gateway.graphql('{ pets { id } }', { key: 'a' });
    expect([status, headers.get('x-ratelimit-remaining')]).toEqual([429, '49']);
    const { data } = await gateway.graphql(RATE_LIMIT, { key: 'a' });
    expect(data.rateLimit).toMatchObject({ plan: 'FREE', windows: [{ remaining: 49 }, { remaining: 989 }] });
    await gateway.close();
    await upstream.close();
  });

  it('yields to limits that the upstream states', async () => {
    const upstream = await startScriptedUpstream((_, response) => send(response, 200, '[]', freeLimits(7)));
    const gateway = await startProxyBefore(upstream.url, { DEFAULT_PLAN: 'business' });
    await gateway.graphql('{ pets { id } }', { key: 'a' });
    const { data } = await gateway.graphql(RATE_LIMIT, { key: 'a' });
    expect(data.rateLimit).toMatchObject({ plan: null, windows: [{ remaining: 7 }, { remaining: 1000 }] });
    await gateway.close();
    await upstream.close();
  });
});

describe('a flood of requests through a gateway in front of a real store', () => {
  let gateway: Gateway;

  beforeEach(async () => {
    gateway = await startGateway('proxy', { BAN_AFTER: '5' });
  });
  afterEach(() => gateway.close());

  it('never makes the store refuse or ban its key, and does not affect other keys', async () => {
    const { key } = await gateway.createKey({ plan: 'free' });
    const { key: pro } = await gateway.createKey({ plan: 'pro' });
    const flood = Array.from({ length: 240 }, (_, i) =>
      gateway.graphql(`{ pets(limit: ${(i % 100) + 1}) { id } }`, { key }),
    );
    const beside = Array.from({ length: 20 }, () => gateway.graphql('{ pets { id } }', { key: pro }));
    const statuses = (await Promise.all(flood)).map(({ status }) => status);
    expect(statuses.filter((status) => status !== 200 && status !== 429)).toEqual([]);
    expect((await Promise.all(beside)).map(({ status }) => status)).toEqual(Array(20).fill(200));
    const upstream = gateway.upstream as Gateway;
    const refused = upstream.logged.filter(({ path, status }) => String(path).startsWith('/v1/') && status === 429);
    expect(refused).toEqual([]);
    const again = await upstream.fetch('/v1/pets', { headers: { Authorization: `Bearer ${key}` } });
    expect(((await again.json()) as { code: string }).code).toBe('rate_limited');
  });
});
