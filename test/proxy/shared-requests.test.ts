import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { StoreError } from '../../src/errors.js';
import { createCall, type Call } from '../../src/pets/pet-source.js';
import { createBreaker } from '../../src/proxy/breaker.js';
import { createUpstreamClient } from '../../src/proxy/client.js';
import type { Result } from '../../src/proxy/batch.js';
import { createCancellableCall, createUpstreamKey } from '../support/calls.js';
import { collectGarbage } from '../support/garbage.js';
import { startProxyBefore, type ProxyOnly } from '../support/gateway.js';
import { answerAnimals, send, startScriptedUpstream, type ScriptedUpstream } from '../support/scripted-upstream.js';

describe('requests from a gateway to its upstream', () => {
  let upstream: ScriptedUpstream;
  let gateway: ProxyOnly;

  beforeEach(async () => {
    upstream = await startScriptedUpstream();
    gateway = await startProxyBefore(upstream.url);
    // The limits of the key are known after this, so its requests need not go one after the other.
    await gateway.graphql('{ pets { id } }', { key: 'a' });
    upstream.play(answerAnimals);
  });
  afterEach(async () => {
    await gateway.close();
    await upstream.close();
  });

  it('look up each distinct animal of an HTTP request once, through aliases and a batch', async () => {
    const body = [1, 2, 3].map((n) => ({
      query: `{ a: pet(id: 1) { id } b: pet(id: 1) { name } c: pet(id: ${n}) { id } pets { id } again: pets(limit: 20) { id } }`,
    }));
    const response = await gateway.fetch('/graphql', {
      method: 'POST',
      headers: { 'Content-Type': 'application/json', Authorization: 'Bearer a' },
      body: JSON.stringify(body),
    });
    const results = (await response.json()) as { data: { c: { id: string } } }[];
    expect(results.map(({ data }) => data.c.id)).toEqual(['1', '2', '3']);
    expect(upstream.seen.map(({ path }) => path).sort()).toEqual(['/pets/1', '/pets/2', '/pets/3', '/pets?limit=20']);
  });

  it('look up distinct animals concurrently', async () => {
    upstream.play((request, response) => void setTimeout(() => answerAnimals(request, response), 100));
    const aliases = Array.from({ length: 20 }, (_, i) => `p${i}: pet(id: ${i}) { id }`).join(' ');
    const startedAt = Date.now();
    const { errors } = await gateway.graphql(`{ ${aliases} }`, { key: 'a' });
    expect(errors).toBeUndefined();
    expect(upstream.seen).toHaveLength(20);
    expect(Date.now() - startedAt).toBeLessThan(1_000);
  });

  it('never share a response between keys', async () => {
    upstream.play(({ headers }, response) => {
      const id = headers.authorization === 'Bearer a' ? 1 : 2;
      send(response, 200, `[{"id":${id},"name":"x","categoryId":1}]`);
    });
    const [a, b] = await Promise.all([
      gateway.graphql('{ pets { id } }', { key: 'a' }),
      gateway.graphql('{ pets { id } }', { key: 'b' }),
    ]);
    expect(a.data.pets).toEqual([{ id: '1' }]);
    expect(b.data.pets).toEqual([{ id: '2' }]);
  });

  it('sent before an animal was added do not answer later reads', async () => {
    let animals: string[] = [];
    upstream.play(({ method }, response) => {
      if (method === 'POST') {
        animals = ['{"id":1,"name":"New","categoryId":1}'];
        send(response, 201, animals[0]);
        return;
      }
      const asOfNow = `[${animals.join(',')}]`;
      setTimeout(() => send(response, 200, asOfNow), 150);
    });
    const before = gateway.graphql('{ pets { id } }', { key: 'a' });
    await sleep(50);
    await gateway.graphql('mutation { addPet(input: { name: "New", categoryId: 1 }) { id } }', { key: 'a' });
    const after = await gateway.graphql('{ pets { id } }', { key: 'a' });
    expect(after.data.pets).toEqual([{ id: '1' }]);
    expect((await before).data.pets).toEqual([]);
  });

  it('are cancelled when the client disconnects', async () => {
    upstream.play(() => undefined);
    const client = new AbortController();
    const answer = gateway.fetch('/graphql', {
      method: 'POST',
      headers: { 'Content-Type': 'application/json', Authorization: 'Bearer a' },
      body: JSON.stringify({ query: '{ pets { id } pet(id: 1) { id } }' }),
      signal: client.signal,
    });
    await expect.poll(() => upstream.seen.length).toBe(2);
    client.abort();
    await expect(answer).rejects.toThrow();
    await expect.poll(() => upstream.cancelled()).toBe(2);
  });
});

it('equal GETs of a key that wait for a connection share one request, and each call can be cancelled separately', async () => {
  const upstream = await startScriptedUpstream();
  const gateway = await startProxyBefore(upstream.url, { UPSTREAM_CONNECTIONS: '1', SHUTDOWN_GRACE_MS: '500' });
  await gateway.graphql('{ pets { id } }', { key: 'a' });
  const held: (() => void)[] = [];
  upstream.play((request, response) => void held.push(() => answerAnimals(request, response)));
  const first = gateway.graphql('{ pet(id: 1) { id } }', { key: 'a' });
  await expect.poll(() => held.length).toBe(1);

  const client = new AbortController();
  const cancelled = gateway.fetch('/graphql', {
    method: 'POST',
    headers: { 'Content-Type': 'application/json', Authorization: 'Bearer a' },
    body: JSON.stringify({ query: '{ pet(id: 2) { id } }' }),
    signal: client.signal,
  });
  const others = Array.from({ length: 3 }, () => gateway.graphql('{ pet(id: 2) { id } }', { key: 'a' }));
  await sleep(1_000);
  client.abort();
  await expect(cancelled).rejects.toThrow();
  held[0]?.();
  expect((await first).data.pet).toEqual({ id: '1' });
  await expect.poll(() => held.length).toBe(2);
  held[1]?.();
  for (const { data } of await Promise.all(others)) expect(data.pet).toEqual({ id: '2' });
  expect(upstream.seen.map(({ path }) => path)).toEqual(['/pets/1', '/pets/2']);
  await gateway.close();
  await upstream.close();
});

it('equal GETs of a key share one request while its connection opens, but not once it was sent', async () => {
  const upstream = await startScriptedUpstream();
  const breaker = createBreaker(() => undefined);
  const client = createUpstreamClient({ url: upstream.url, connections: 8, timeoutMs: 20_000, breaker });
  const call = { ...createCall('test'), key: createUpstreamKey('a') };
  const ask = (): Promise<readonly Result[]> =>
    client.ask(['/pets/1'], { call, method: 'GET', headers: [], read: () => [] });
  const held: (() => void)[] = [];
  upstream.play((request, response) => void held.push(() => answerAnimals(request, response)));
  const together = [ask(), ask(), ask()];
  await expect.poll(() => held.length).toBe(1);
  const later = ask();
  await expect.poll(() => held.length).toBe(2);
  for (const answer of held) answer();
  expect(await Promise.all([...together, later])).toEqual([[[]], [[]], [[]], [[]]]);
  expect(upstream.seen).toHaveLength(2);
  await client.close();
  await upstream.close();
});

it('a call that shares requests with others does not keep those before it in memory', async () => {
  const upstream = await startScriptedUpstream();
  const breaker = createBreaker(() => undefined);
  const client = createUpstreamClient({ url: upstream.url, connections: 8, timeoutMs: 60_000, breaker });
  const key = createUpstreamKey('a');
  const last = 40;
  let finish: (() => void) | undefined;
  upstream.play((request, response) => {
    if (request.path === `/pets/${last}`) finish = () => answerAnimals(request, response);
    else answerAnimals(request, response);
  });
  const ended: WeakRef<Call>[] = [];
  // Each shares one of its requests with the next.
  const asked = Array.from({ length: last }, (_, n) => {
    const call = { ...createCall('test'), key };
    ended.push(new WeakRef(call));
    return client.ask([`/pets/${n}`, `/pets/${n + 1}`], { call, method: 'GET', headers: [], read: () => [] });
  });
  const open = asked.pop();
  expect(await Promise.all(asked.splice(0))).toHaveLength(last - 1);
  await expect.poll(() => upstream.seen.length).toBe(last + 1);
  // A connection may keep its last request.
  const countKept = (): number => {
    collectGarbage();
    return ended.slice(0, last / 2).filter((call) => call.deref()).length;
  };
  await expect.poll(countKept).toBe(0);
  finish?.();
  expect(await open).toEqual([[], []]);
  await client.close();
  await upstream.close();
});

it('a call that is cancelled before its retry does not hold up other requests of its key', async () => {
  const upstream = await startScriptedUpstream();
  const breaker = createBreaker(() => undefined);
  const client = createUpstreamClient({ url: upstream.url, connections: 2, timeoutMs: 20_000, breaker });
  const key = createUpstreamKey('a');
  const ask = (path: string, call: Call): Promise<readonly Result[]> =>
    client.ask([path], { call: { ...call, key }, method: 'GET', headers: [], read: readStatus });
  const readStatus = ({ status }: { readonly status: number }): Result =>
    status === 503 ? new StoreError('upstream_error', 'No.') : [];
  const held: (() => void)[] = [];
  upstream.play((request, response) => {
    if (request.path === '/pets/1') send(response, 503, '{}', { 'Retry-After': '10' });
    else held.push(() => answerAnimals(request, response));
  });
  const leaving = new AbortController();
  const cancelled = ask('/pets/1', createCancellableCall(leaving.signal));
  await expect.poll(() => upstream.seen.length).toBe(1);
  await sleep(50);
  const others = [ask('/pets/2', createCall('test')), ask('/pets/3', createCall('test'))];
  await expect.poll(() => held.length).toBe(1);
  leaving.abort();
  expect(await cancelled).toMatchObject([{ name: 'AbortError' }]);
  held[0]?.();
  await expect.poll(() => held.length).toBe(2);
  held[1]?.();
  expect(await Promise.all(others)).toEqual([[[]], [[]]]);
  await client.close();
  await upstream.close();
});

it('a key whose requests are slow leaves connections to other keys', async () => {
  const upstream = await startScriptedUpstream();
  const gateway = await startProxyBefore(upstream.url, { UPSTREAM_CONNECTIONS: '9', SHUTDOWN_GRACE_MS: '500' });
  for (const key of ['slow', 'quick']) await gateway.graphql('{ pets { id } }', { key });
  upstream.play((request, response) => {
    const delay = request.headers.authorization === 'Bearer slow' ? 2_000 : 0;
    setTimeout(answerAnimals, delay, request, response);
  });
  const aliases = Array.from({ length: 100 }, (_, i) => `p${i}: pet(id: ${i}) { id }`).join(' ');
  const slow = gateway.graphql(`{ ${aliases} }`, { key: 'slow' });
  await expect.poll(() => upstream.seen.length).toBe(4);
  const startedAt = performance.now();
  expect((await gateway.graphql('{ pet(id: 1) { id } }', { key: 'quick' })).errors).toBeUndefined();
  expect(upstream.seen).toHaveLength(5);
  expect(performance.now() - startedAt).toBeLessThan(1_000);
  expect((await slow).errors?.[0]?.extensions.code).toBe('UPSTREAM_TIMEOUT');
  await gateway.close();
  await upstream.close();
});
