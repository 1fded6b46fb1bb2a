import { createServer, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { StoreError } from '../../src/errors.js';
import { CallCancelled } from '../../src/pets/pet-source.js';
import { createConnections, type Connections } from '../../src/proxy/connections.js';
import { createUpstreamKey } from '../support/calls.js';
import type { Outcome, UpstreamAnswer, UpstreamRequest } from '../../src/proxy/exchange.js';

/** A request on its way. */
interface Sent {
  readonly request: UpstreamRequest;
  readonly outcome: Promise<Outcome>;
}

describe('the connections to an upstream, with only one', () => {
  let server: Server;
  let connections: Connections;
  /** The responses of the upstream, by path. */
  let asked: Map<string, ServerResponse>;

  beforeEach(async () => {
    asked = new Map();
    server = createServer(({ url = '' }, response) => void asked.set(url, response));
    await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening));
    const { port } = server.address() as AddressInfo;
    connections = createConnections({ url: `http://127.0.0.1:${port}/v1`, connections: 1, connectTimeoutMs: 5_000 });
  });
  afterEach(async () => {
    await connections.close();
    server.closeAllConnections();
    await new Promise((closed) => server.close(closed));
  });

  function send(path: string, { keyId = 'a', refusal }: { keyId?: string; refusal?: StoreError } = {}): Sent {
    const key = { ...createUpstreamKey(keyId), findRefusal: () => refusal };
    const request: UpstreamRequest = { call: { requestId: 'r', key }, method: 'GET', path, headers: {} };
    return { request, outcome: connections.send(request) };
  }
  const arrivalOf = (path: string) => vi.waitFor(() => expect([...asked.keys()]).toContain(path), { timeout: 5_000 });

  it('sends waiting requests in their order, and skips cancelled ones', async () => {
    const [first, second, third] = [send('/1'), send('/2'), send('/3')];
    expect(connections.load()).toEqual({ active: 1, idle: 0, waiting: 2 });
    expect(second.request.progress?.cancel(new Error('gone'))).toBe(false);
    expect(await second.outcome).toMatchObject({ kind: 'timeout', error: { message: 'gone' }, wasSent: false });
    expect(connections.load()).toEqual({ active: 1, idle: 0, waiting: 1 });
    await arrivalOf('/v1/1');
    asked.get('/v1/1')?.end('one');
    expect(await first.outcome).toMatchObject({ status: 200, body: 'one' });
    await arrivalOf('/v1/3');
    asked.get('/v1/3')?.end('three');
    expect(await third.outcome).toMatchObject({ status: 200, body: 'three' });
    expect([...asked.keys()]).toEqual(['/v1/1', '/v1/3']);
    await vi.waitFor(() => expect(connections.load()).toEqual({ active: 0, idle: 1, waiting: 0 }));
  });

  it('serves keys in turn', async () => {
    const ofA = ['/a1', '/a2', '/a3', '/a4'].map((path) => send(path));
    const ofB = ['/b1', '/b2'].map((path) => send(path, { keyId: 'b' }));
    for (const path of ['/a1', '/a2', '/b1', '/a3', '/b2', '/a4']) {
      await arrivalOf(`/v1${path}`);
      asked.get(`/v1${path}`)?.end('');
    }
    await Promise.all([...ofA, ...ofB].map(({ outcome }) => outcome));
    expect([...asked.keys()].map((path) => path.slice(4))).toEqual(['a1', 'a2', 'b1', 'a3', 'b2', 'a4']);
  });

  it('cancels no other request that uses the same connection later', async () => {
    const first = send('/1');
    await arrivalOf('/v1/1');
    const { progress } = first.request;
    asked.get('/v1/1')?.end('one');
    await first.outcome;
    const second = send('/2');
    await arrivalOf('/v1/2');
    progress?.cancel(new Error('too late'));
    first.request.progress?.cancel(new Error('too late'));
    asked.get('/v1/2')?.end('two');
    expect(await second.outcome).toMatchObject({ status: 200, body: 'two' });
  });

  it('continues after a request is cancelled in flight, and after one is refused right before it is sent', async () => {
    const first = send('/1');
    await arrivalOf('/v1/1');
    expect(first.request.progress?.cancel(new CallCancelled())).toBe(true);
    expect(await first.outcome).toMatchObject({ kind: 'cancelled', error: expect.any(CallCancelled), wasSent: true });
    const second = send('/2', { refusal: new StoreError('rate_limited', 'not now') });
    expect(await second.outcome).toMatchObject({ kind: 'refused', error: { message: 'not now' }, wasSent: false });
    const third = send('/3');
    await arrivalOf('/v1/3');
    asked.get('/v1/3')?.writeHead(404, { 'X-Kind': 'none' }).end('');
    const answer = await third.outcome;
    expect(answer).toMatchObject({ kind: 'answer', status: 404, body: '' });
    expect((answer as UpstreamAnswer).header('x-kind')).toBe('none');
    expect([...asked.keys()]).toEqual(['/v1/1', '/v1/3']);
  });

  it('reports an incomplete response as broken, and a closed upstream as unreachable', async () => {
    const first = send('/1');
    await arrivalOf('/v1/1');
    const response = asked.get('/v1/1');
    response?.writeHead(200, { 'Content-Length': '100' });
    response?.write('some');
    setTimeout(() => response?.socket?.destroy(), 50);
    expect(await first.outcome).toMatchObject({ kind: 'broken', error: { code: 'upstream_error' }, wasSent: true });
    await new Promise((closed) => server.close(closed));
    expect(await send('/2').outcome).toMatchObject({
      kind: 'unreachable',
      error: { code: 'upstream_unavailable' },
      wasSent: false,
    });
    await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening));
  });
});
