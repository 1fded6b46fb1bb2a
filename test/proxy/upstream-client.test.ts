import { createServer, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { UpstreamAnswer } from '../../src/pets/upstream/outgoing-request.js';
import { createUpstreamClient, type Sent, type UpstreamClient } from '../../src/pets/upstream/upstream-client.js';

describe('the client of an upstream, with one connection', () => {
  let server: Server;
  let client: UpstreamClient;
  /** The answers that the upstream has still to give, by path. */
  let asked: Map<string, ServerResponse>;

  beforeEach(async () => {
    asked = new Map();
    server = createServer(({ url = '' }, response) => void asked.set(url, response));
    await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening));
    const { port } = server.address() as AddressInfo;
    client = createUpstreamClient({ url: `http://127.0.0.1:${port}/v1`, connections: 1, connectTimeoutMs: 5_000 });
  });
  afterEach(async () => {
    await client.close();
    server.closeAllConnections();
    await new Promise((closed) => server.close(closed));
  });

  function send(
    path: string,
    beforeLeaving: () => void = () => undefined,
  ): Sent & { readonly outcome: Promise<UpstreamAnswer | Error> } {
    let settle: (outcome: UpstreamAnswer | Error) => void = () => undefined;
    const outcome = new Promise<UpstreamAnswer | Error>((resolve) => (settle = resolve));
    const sent = client.send({ method: 'GET', path, headers: {}, beforeLeaving, settle });
    return { outcome, cancel: (reason) => sent.cancel(reason) };
  }
  const arrivalOf = (path: string) => vi.waitFor(() => expect([...asked.keys()]).toContain(path), { timeout: 5_000 });

  it('sends what waits in its order, past what was cancelled meanwhile', async () => {
    const [first, second, third] = [send('/1'), send('/2'), send('/3')];
    expect(client.load()).toEqual({ active: 1, idle: 0, waiting: 2 });
    second.cancel(new Error('gone'));
    expect(await second.outcome).toMatchObject({ message: 'gone' });
    expect(client.load()).toEqual({ active: 1, idle: 0, waiting: 1 });
    await arrivalOf('/v1/1');
    asked.get('/v1/1')?.end('one');
    expect(await first.outcome).toMatchObject({ status: 200, body: 'one' });
    await arrivalOf('/v1/3');
    asked.get('/v1/3')?.end('three');
    expect(await third.outcome).toMatchObject({ status: 200, body: 'three' });
    expect([...asked.keys()]).toEqual(['/v1/1', '/v1/3']);
    expect(client.load()).toEqual({ active: 0, idle: 1, waiting: 0 });
  });

  it('cancels no other request that its connection has on it by then', async () => {
    const first = send('/1');
    await arrivalOf('/v1/1');
    asked.get('/v1/1')?.end('one');
    await first.outcome;
    const second = send('/2');
    await arrivalOf('/v1/2');
    first.cancel(new Error('too late'));
    asked.get('/v1/2')?.end('two');
    expect(await second.outcome).toMatchObject({ status: 200, body: 'two' });
  });

  it('goes on after one that was cancelled on its way, and one that was not to leave', async () => {
    const first = send('/1');
    await arrivalOf('/v1/1');
    first.cancel(new Error('gone'));
    expect(await first.outcome).toMatchObject({ message: 'gone' });
    const second = send('/2', () => {
      throw new Error('not now');
    });
    expect(await second.outcome).toMatchObject({ message: 'not now' });
    const third = send('/3');
    await arrivalOf('/v1/3');
    asked.get('/v1/3')?.writeHead(404, { 'X-Kind': 'none' }).end('');
    const answer = await third.outcome;
    expect(answer).toMatchObject({ status: 404, body: '' });
    expect((answer as UpstreamAnswer).header('x-kind')).toBe('none');
    expect([...asked.keys()]).toEqual(['/v1/1', '/v1/3']);
  });

  it('tells what came of an answer that breaks off, and of an upstream that is gone', async () => {
    const first = send('/1');
    await arrivalOf('/v1/1');
    const response = asked.get('/v1/1');
    response?.writeHead(200, { 'Content-Length': '100' });
    response?.write('some');
    setTimeout(() => response?.socket?.destroy(), 50);
    expect(await first.outcome).toMatchObject({ name: 'UpstreamFailure', kind: 'broken', hasLeft: true });
    await new Promise((closed) => server.close(closed));
    expect(await send('/2').outcome).toMatchObject({ name: 'UpstreamFailure', kind: 'unreachable', hasLeft: false });
    await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening));
  });
});
