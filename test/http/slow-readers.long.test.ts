import { once } from 'node:events';
import type { Server } from 'node:http';
import { connect, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { pino } from 'pino';
import { afterEach, expect, it } from 'vitest';
import { createCors } from '../../src/http/cors.js';
import { listen } from '../../src/http/lifecycle.js';
import { createHttpServer, type HttpServerOptions } from '../../src/http/server.js';
import type { Metrics } from '../../src/observability/metrics.js';

const STALL_MS = 1_000;
/** More than the kernel buffers at both ends of a connection. */
const BODY = `${'animal '.repeat(4_000_000)}é`;
const BODY_BYTES = Buffer.byteLength(BODY);

let server: Server;
let url: string;
/** The server's ends of all connections. */
const accepted: Socket[] = [];
const clients: Socket[] = [];

async function serve(options: Partial<HttpServerOptions> = {}): Promise<void> {
  ({ server } = createHttpServer({
    async answer({ path }) {
      if (path === '/late') await sleep(2 * STALL_MS);
      const reply = { status: 200, headers: {}, body: path === '/large' ? BODY : `this is ${path}` };
      return { reply, route: path };
    },
    cors: createCors([]),
    log: pino({ level: 'silent' }),
    metrics: { observeHttp: () => undefined } as unknown as Metrics,
    trustProxy: false,
    isDraining: () => false,
    stallMs: STALL_MS,
    ...options,
  }));
  server.on('connection', (socket) => accepted.push(socket));
  url = await listen(server, '127.0.0.1', 0);
}

afterEach(async () => {
  for (const socket of clients.splice(0)) socket.destroy();
  for (const socket of accepted.splice(0)) socket.destroy();
  await new Promise((closed) => server.close(closed));
});

const get = (path: string, headers = ''): string => `GET ${path} HTTP/1.1\r\nHost: store\r\n${headers}\r\n`;
const send = (...paths: readonly string[]) => sendText(paths.map((path) => get(path)).join(''));

/** Sends requests on a new connection. The client reads nothing until the test says so. */
async function sendText(requests: string): Promise<{ client: Socket; serverEnd: Socket }> {
  const client = connect(Number(new URL(url).port), '127.0.0.1');
  clients.push(client);
  client.on('error', () => undefined);
  client.pause();
  const count = accepted.length;
  await expect.poll(() => accepted.length).toBe(count + 1);
  client.write(requests);
  return { client, serverEnd: accepted[count] as Socket };
}

/** Reads all bytes up to the end of a body, with a pause after each chunk. */
async function read(client: Socket, bodyBytes: number, pauseMs = 0): Promise<void> {
  let received = 0;
  client.on('data', ({ length }: Buffer) => {
    received += length;
    if (pauseMs === 0) return;
    client.pause();
    setTimeout(() => client.resume(), pauseMs);
  });
  client.resume();
  await expect.poll(() => received > bodyBytes, { timeout: 20_000 }).toBe(true);
}

it('disconnects a client that reads nothing of its response', async () => {
  await serve();
  const startedAt = performance.now();
  const { serverEnd } = await send('/large');
  await once(serverEnd, 'close');
  expect(performance.now() - startedAt).toBeGreaterThanOrEqual(STALL_MS);
});

it('disconnects a client that sends requests without end and reads no response', async () => {
  await serve();
  const { client, serverEnd } = await send('/small');
  const requests = get('/small').repeat(1_000);
  const flood = (): void => {
    while (!serverEnd.destroyed && client.write(requests));
  };
  client.on('drain', flood);
  flood();
  await once(serverEnd, 'close');
});

it('disconnects a client that reads no response and sends a request without end, byte by byte', async () => {
  await serve();
  const { client, serverEnd } = await send('/large');
  client.write('GET / HTTP/1.1\r\nX: ');
  const dripping = setInterval(() => client.write('x'), STALL_MS / 3);
  await once(serverEnd, 'close');
  clearInterval(dripping);
}, 60_000);

it('waits for a client that reads slowly', async () => {
  await serve();
  const startedAt = performance.now();
  const { client, serverEnd } = await send('/large');
  await read(client, BODY_BYTES, 4);
  expect(performance.now() - startedAt).toBeGreaterThan(STALL_MS);
  expect(serverEnd.destroyed).toBe(false);
});

it('leaves slow handlers, pipelined requests and idle connections alone', async () => {
  await serve();
  const { client, serverEnd } = await send('/late', '/next');
  let text = '';
  client.on('data', (chunk) => (text += String(chunk))).resume();
  await expect.poll(() => text, { timeout: 4 * STALL_MS }).toContain('this is /next');
  await sleep(2 * STALL_MS);
  client.write(get('/last'));
  await expect.poll(() => text).toContain('this is /last');
  expect(serverEnd.destroyed).toBe(false);
});

it.each([
  ['complete', ''],
  ['incomplete', 'Content-Length: 5\r\n'],
])('disconnects the client that has read nothing for longest when too many bytes wait: %s', async (_, headers) => {
  // Two of these bodies fit into 64 MiB.
  await serve({ stallMs: 600_000 });
  const first = await sendText(get('/large', headers));
  const second = await sendText(get('/large', headers));
  await sleep(100);
  const reader = await send('/large');
  await read(reader.client, BODY_BYTES);
  expect(first.serverEnd.destroyed).toBe(true);
  expect([second, reader].map(({ serverEnd }) => serverEnd.destroyed)).toEqual([false, false]);
});
