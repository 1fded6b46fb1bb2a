import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { startProxyBefore } from '../support/gateway.js';
import { send, startScriptedUpstream } from '../support/scripted-upstream.js';

describe('made-up keys', () => {
  it('cost the upstream one request each, few at once, then a few a second; a valid key still gets in', async () => {
    const upstream = await startScriptedUpstream(({ headers }, response) => {
      const isValid = headers.authorization === 'Bearer valid';
      setTimeout(() => {
        if (isValid) send(response, 200, '{"id":1,"name":"x","categoryId":1}');
        else send(response, 401, { code: 'unauthorized', message: 'No.', status: 401 });
      }, 20);
    });
    const gateway = await startProxyBefore(upstream.url);
    const lookups = Array.from({ length: 50 }, (_, i) => `p${i}: pet(id: ${i}) { id }`).join(' ');
    const batch = await gateway.fetch('/graphql', {
      method: 'POST',
      headers: { 'Content-Type': 'application/json', Authorization: 'Bearer made-up' },
      body: JSON.stringify([{ query: `{ ${lookups} }` }, { query: `{ ${lookups} }` }]),
    });
    expect(batch.status).toBe(401);
    expect(upstream.seen).toHaveLength(1);

    const startedAt = performance.now();
    const flood = Array.from({ length: 300 }, (_, i) => gateway.graphql('{ pet(id: 1) { id } }', { key: `no-${i}` }));
    await sleep(100);
    let valid = await gateway.graphql('{ pet(id: 1) { id } }', { key: 'valid' });
    for (; !valid.data; valid = await gateway.graphql('{ pet(id: 1) { id } }', { key: 'valid' })) {
      expect(valid.status).toBe(429);
      await sleep(Number(valid.headers.get('retry-after')) * 1_000);
    }
    expect(valid.data).toEqual({ pet: { id: '1' } });
    const statuses = new Set((await Promise.all(flood)).map(({ status }) => status));
    expect([...statuses].sort()).toEqual([401, 429]);
    const seconds = (performance.now() - startedAt) / 1_000;
    expect(upstream.seen.length).toBeLessThan(1 + 16 + 4 * (seconds + 1));
    await gateway.close();
    await upstream.close();
  });
});

it.each([
  ['400', 400, 30, undefined],
  ['403', 403, 30, undefined],
  ['429 for their address', 429, 30, undefined],
  ['401, and their clients disconnect before that', 401, 1_000, 200],
])(
  'made-up keys cost the upstream a few requests a second if it answers %s',
  async (_, status, delayMs, patienceMs) => {
    const upstream = await startScriptedUpstream((_request, response) => {
      setTimeout(() => send(response, status, { code: 'no', message: 'No.', status }, { 'Retry-After': '1' }), delayMs);
    });
    const gateway = await startProxyBefore(upstream.url);
    const startedAt = performance.now();
    await Promise.all(
      Array.from({ length: 20 }, async (_value, client) => {
        for (let i = 0; performance.now() < startedAt + 2_000; i++) {
          const signal = patienceMs === undefined ? undefined : AbortSignal.timeout(patienceMs);
          const headers = { Authorization: `Bearer made-up-${client}-${i}` };
          await gateway.fetch('/graphql?query={pets{id}}', { headers, signal: signal ?? null }).catch(() => undefined);
        }
      }),
    );
    expect(upstream.seen.length).toBeGreaterThan(0);
    const seconds = (performance.now() - startedAt) / 1_000;
    expect(upstream.seen.length).toBeLessThan(16 + 4 * (seconds + 1));
    await gateway.close();
    await upstream.close();
  },
);

it('keys that were tried while the upstream was away are tried at once when it is back', async () => {
  const upstream = await startScriptedUpstream();
  const gateway = await startProxyBefore(upstream.url, { UPSTREAM_TIMEOUT_MS: '500' });
  upstream.goAway();
  const ask = (i: number) => gateway.graphql('{ pets { id } }', { key: `valid-${i}` });
  for (const { status } of await Promise.all(Array.from({ length: 30 }, (_, i) => ask(i))))
    expect(status).not.toBe(429);
  upstream.play((_, response) => send(response, 200, '[]'));
  await expect.poll(async () => (await ask(100)).status, { timeout: 5_000 }).toBe(200);
  const answers = await Promise.all(Array.from({ length: 30 }, (_, i) => ask(i)));
  expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200]));
  await gateway.close();
  await upstream.close();
});

it('a disconnecting client does not keep the valid keys of its address out', async () => {
  const upstream = await startScriptedUpstream(({ headers }, response) => {
    if (headers.authorization === 'Bearer valid') send(response, 200, '[]');
    else send(response, 401, { code: 'unauthorized', message: 'No.', status: 401 });
  });
  const gateway = await startProxyBefore(upstream.url);
  for (let i = 0; i < 5; i++) await gateway.graphql('{ pets { id } }', { key: `no-${i}` });
  const ask = (key: string, signal?: AbortSignal) =>
    gateway.fetch('/graphql?query={pets{id}}', {
      headers: { Authorization: `Bearer ${key}` },
      ...(signal && { signal }),
    });
  const flood = setInterval(() => {
    for (let i = 0; i < 18; i++) ask(`made-up-${i}`, AbortSignal.timeout(40)).catch(() => undefined);
  }, 1_500);
  try {
    await sleep(1_600);
    await expect.poll(async () => (await ask('valid')).status, { interval: 1_000, timeout: 15_000 }).toBe(200);
  } finally {
    clearInterval(flood);
    await gateway.close();
    await upstream.close();
  }
});

describe('unseen keys of one address', () => {
  const answerBy = (isValid: (key: string) => boolean, delayMs: number) =>
    startScriptedUpstream(({ headers }, response) => {
      setTimeout(() => {
        if (isValid(String(headers.authorization).slice('Bearer '.length))) send(response, 200, '[]');
        else send(response, 401, { code: 'unauthorized', message: 'No.', status: 401 });
      }, delayMs);
    });

  it('are all served when many valid ones come at once', async () => {
    const upstream = await answerBy(() => true, 100);
    const gateway = await startProxyBefore(upstream.url);
    const answers = await Promise.all(
      Array.from({ length: 60 }, (_, i) => gateway.graphql('{ pets { id } }', { key: `valid-${i}` })),
    );
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200]));
    await gateway.close();
    await upstream.close();
  });

  it('get their turn while others that were refused come again and again', { timeout: 90_000 }, async () => {
    const upstream = await answerBy((key) => key === 'valid', 10);
    const gateway = await startProxyBefore(upstream.url);
    let isOver = false;
    const attack = Array.from({ length: 30 }, async (_, i) => {
      while (!isOver) {
        await gateway.graphql('{ pets { id } }', { key: `made-up-${i}` });
        await sleep(200);
      }
    });
    await sleep(7_000);
    const startedAt = performance.now();
    let status = 0;
    while (status !== 200 && performance.now() - startedAt < 60_000) {
      ({ status } = await gateway.graphql('{ pets { id } }', { key: 'valid' }));
      if (status !== 200) await sleep(500);
    }
    isOver = true;
    await Promise.all(attack);
    expect(status).toBe(200);
    await gateway.close();
    await upstream.close();
  });
});
