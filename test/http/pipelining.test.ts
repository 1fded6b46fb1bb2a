import { connect, type Socket } from 'node:net';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { sendRaw } from '../hostile/raw-http.js';
import { startGateway, type Gateway } from '../support/gateway.js';
import { until } from '../support/process.js';

/** Ends the connection. */
const LAST = 'GET /livez HTTP/1.1\r\nHost: x\r\nX-Request-Id: last\r\nConnection: close\r\n\r\n';
const BODY = '{"name":"Rex","categoryId":1}';

describe('requests that are sent before the last response', () => {
  let gateway: Gateway;
  let head: string;

  beforeAll(async () => {
    gateway = await startGateway('server', { LOG_LEVEL: 'info' });
    const { key } = await gateway.createKey({ plan: 'business' });
    head = `Host: x\r\nAuthorization: Bearer ${key}\r\n`;
  });
  afterAll(() => gateway.close());

  const post = (length = BODY.length): string =>
    `POST /v1/pets HTTP/1.1\r\n${head}Content-Type: application/json\r\nContent-Length: ${length}\r\n\r\n`;

  async function open(): Promise<Socket> {
    const { hostname, port } = new URL(gateway.url);
    const socket = connect(Number(port), hostname);
    socket.on('error', () => undefined);
    await once(socket, 'connect');
    return socket;
  }

  it.each([0, 2, 20])('all end when the client resets the connection after %i ms', async (ms) => {
    const socket = await open();
    await new Promise((done) => socket.write(`GET /v1/pets HTTP/1.1\r\n${head}\r\n`.repeat(50), done));
    await sleep(ms);
    socket.resetAndDestroy();
    const active = async (): Promise<string | undefined> =>
      /^http_server_active_requests(?:\{\})? (\d+)$/m.exec(await (await gateway.fetch('/metrics')).text())?.[1];
    // The request for the metrics is the only one.
    await until('no request is in progress', async () => (await active()) === '1');
  });

  it('are answered before a connection is closed because of what follows them', async () => {
    const { text } = await sendRaw(gateway.url, (socket) => socket.write(`${post()}${BODY}}}garbage\r\n\r\n`));
    expect(text.match(/HTTP\/1\.1 \d+/g)).toEqual(['HTTP/1.1 201', 'HTTP/1.1 400']);
  });

  it('are served one after the other, in their order', async () => {
    const ids = [1, 2, 3].map((n) => `request-${n}`);
    const list = (id: string): string => `GET /v1/pets HTTP/1.1\r\n${head}X-Request-Id: ${id}\r\n\r\n`;
    const { text } = await sendRaw(gateway.url, (socket) => socket.write(ids.map(list).join('') + LAST));
    expect(Array.from(text.matchAll(/X-Request-Id: (\S+)/g), ([, id]) => id)).toEqual([...ids, 'last']);
    const lines = gateway.logged.filter(({ requestId }) => ids.includes(String(requestId)));
    expect(lines.map(({ requestId }) => requestId)).toEqual(ids);
  });

  it('close their connection if they are more than twenty', async () => {
    const { key } = await gateway.createKey({ plan: 'business' });
    const list = `GET /v1/pets?limit=1 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${key}\r\n\r\n`;
    const send = (count: number) => sendRaw(gateway.url, (socket) => socket.write(list.repeat(count - 1) + LAST));
    expect((await send(20)).text.match(/HTTP\/1\.1 200 OK/g)).toHaveLength(20);
    expect((await send(40)).text).toBe('');
    const response = await gateway.fetch('/v1/pets?limit=1', { headers: { Authorization: `Bearer ${key}` } });
    // Those before the one too many had started.
    expect(Number(response.headers.get('X-RateLimit-Remaining'))).toBeGreaterThanOrEqual(1_000 - 41);
  });

  it('are not served after a response that ends the connection', async () => {
    const { key } = await gateway.createKey({ plan: 'free' });
    const unread = 'x'.repeat(300_000);
    const refused = `POST /v1/pets HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: ${unread.length}\r\n\r\n`;
    const addition = `POST /v1/pets HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${key}\r\nContent-Type: application/json\r\nContent-Length: ${BODY.length}\r\n\r\n${BODY}`;
    const { text } = await sendRaw(gateway.url, (socket) => socket.write(refused + unread + addition));
    expect(text).toMatch(/^HTTP\/1\.1 401 Unauthorized\r\n(?:.+\r\n)*Connection: close\r\n/);
    const response = await gateway.fetch('/v1/pets?limit=1', { headers: { Authorization: `Bearer ${key}` } });
    expect(response.headers.get('X-RateLimit-Remaining')).toBe('59');
  });

  it('get 400 if their own body is not valid HTTP', async () => {
    const { status, text } = await sendRaw(gateway.url, (socket) =>
      socket.write(`${post().replace(/Content-Length: \d+/, 'Transfer-Encoding: chunked')}zz\r\n`),
    );
    expect(status).toBe(400);
    expect(text.match(/HTTP\/1\.1/g)).toHaveLength(1);
  });
});
