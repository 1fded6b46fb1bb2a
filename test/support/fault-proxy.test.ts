import { connect, createServer, type AddressInfo, type Server, type Socket } from 'node:net';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { startFaultProxy, type FaultProxy } from './fault-proxy.js';

const SILENCE_MS = 200;

let echo: Server;
let proxy: FaultProxy;
const clients: Client[] = [];

beforeEach(async () => {
  echo = createServer((socket) => socket.on('error', () => undefined).pipe(socket));
  await new Promise<void>((ready) => echo.listen(0, '127.0.0.1', ready));
  proxy = await startFaultProxy({ port: (echo.address() as AddressInfo).port });
});
afterEach(async () => {
  for (const { socket } of clients.splice(0)) socket.destroy();
  await proxy.close();
  await new Promise((closed) => echo.close(closed));
});

/** A connection that keeps what it hears. */
class Client {
  heard = '';
  error: NodeJS.ErrnoException | undefined;
  isClosed = false;
  constructor(readonly socket: Socket) {
    socket.on('data', (chunk) => (this.heard += chunk.toString('latin1')));
    socket.on('error', (error) => (this.error = error));
    socket.on('close', () => (this.isClosed = true));
  }

  async hears(text: string): Promise<void> {
    await vi.waitFor(() => expect(this.heard).toBe(text), 5_000);
  }

  async fails(code: string): Promise<void> {
    await vi.waitFor(() => expect(this.error?.code).toBe(code), 5_000);
  }
}

async function open(): Promise<Client> {
  const client = new Client(connect(proxy.port, '127.0.0.1'));
  clients.push(client);
  await once(client.socket, 'connect');
  return client;
}

async function openAndSpeak(): Promise<Client> {
  const client = await open();
  client.socket.write('hello');
  await client.hears('hello');
  return client;
}

it('pass: forwards both ways, ends included', async () => {
  const client = await openAndSpeak();
  client.socket.end(' again');
  await client.hears('hello again');
  await vi.waitFor(() => expect(client.isClosed).toBe(true));
  await vi.waitFor(() => expect(proxy.connections).toBe(0));
});

it('pass: loses nothing of a large message', async () => {
  const client = await open();
  const text = 'animal '.repeat(500_000);
  client.socket.write(text);
  await vi.waitFor(() => expect(client.heard.length).toBe(text.length), 10_000);
  expect(client.heard === text).toBe(true);
});

it('stall: holds what arrives and lets it go on', async () => {
  const old = await openAndSpeak();
  await proxy.set('stall');
  const fresh = await open();
  old.socket.write(' held');
  fresh.socket.write('held too');
  await sleep(SILENCE_MS);
  expect([old.heard, fresh.heard]).toEqual(['hello', '']);
  await proxy.set('pass');
  await old.hears('hello held');
  await fresh.hears('held too');
});

it('blackhole: loses what arrives, and serves new connections alone afterwards', async () => {
  const old = await openAndSpeak();
  await proxy.set('blackhole');
  const lost = await open();
  old.socket.write(' lost');
  lost.socket.write('lost too');
  await sleep(SILENCE_MS);
  await proxy.set('pass');
  old.socket.write(' still lost');
  await sleep(SILENCE_MS);
  expect([old.heard, lost.heard, old.isClosed, lost.isClosed]).toEqual(['hello', '', false, false]);
  await openAndSpeak();
});

it('reset: open connections and new ones', async () => {
  const old = await openAndSpeak();
  await proxy.set('reset');
  await old.fails('ECONNRESET');
  const fresh = new Client(connect(proxy.port, '127.0.0.1'));
  await fresh.fails('ECONNRESET');
  await proxy.set('pass');
  await openAndSpeak();
});

it('refuse: closes and does not listen, and listens again on the same port', async () => {
  const old = await openAndSpeak();
  const { port } = proxy;
  await proxy.set('refuse');
  await vi.waitFor(() => expect(old.isClosed).toBe(true));
  const fresh = new Client(connect(port, '127.0.0.1'));
  await fresh.fails('ECONNREFUSED');
  await proxy.set('pass');
  expect(proxy.port).toBe(port);
  await openAndSpeak();
});

it('garbage: answers with random bytes, and spoils the connection', async () => {
  const client = await openAndSpeak();
  await proxy.set('garbage');
  client.socket.write('what?');
  await vi.waitFor(() => expect(client.heard.length).toBe('hello'.length + 256));
  await proxy.set('pass');
  await vi.waitFor(() => expect(client.isClosed).toBe(true));
  await openAndSpeak();
});
