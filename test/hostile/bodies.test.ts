import { connect, type Socket } from 'node:net';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startGateway, type Gateway } from '../support/gateway.js';
import { until } from '../support/process.js';

const MEGABYTE = 1_000_000;
/** A body of this many bytes, each a chunk of its own. */
const inBytes = (text: string): Buffer => Buffer.from(`${text.replace(/./g, '1\r\n$&\r\n')}0\r\n\r\n`);

describe('bodies that are cut or filled to cost much', () => {
  let gateway: Gateway;
  let key: string;
  const sockets: Socket[] = [];

  beforeAll(async () => {
    gateway = await startGateway('server');
    ({ key } = await gateway.createKey({ plan: 'business' }));
  });
  afterAll(async () => {
    for (const socket of sockets) socket.destroy();
    await gateway.close();
  });

  async function open(): Promise<Socket> {
    const { hostname, port } = new URL(gateway.url);
    const socket = connect(Number(port), hostname);
    socket.on('error', () => undefined);
    sockets.push(socket);
    await once(socket, 'connect');
    return socket;
  }

  const head = (headers: string): string =>
    `POST /graphql HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${key}\r\nContent-Type: application/json\r\n${headers}\r\n\r\n`;

  async function statusOf(socket: Socket): Promise<number> {
    const [data] = (await once(socket, 'data')) as [Buffer];
    return Number(/^HTTP\/1\.1 (\d+)/.exec(data.toString('latin1'))?.[1]);
  }

  it('a body in one-byte chunks is answered like the same body in one piece', async () => {
    const body = JSON.stringify({ query: '{ __typename }', variables: { text: 'x'.repeat(100_000) } });
    const whole = await open();
    whole.write(`${head(`Content-Length: ${body.length}`)}${body}`);
    expect(await statusOf(whole)).toBe(200);
    const cut = await open();
    cut.write(head('Transfer-Encoding: chunked'));
    cut.write(inBytes(body));
    expect(await statusOf(cut)).toBe(200);
  });

  it('many one-byte chunks leave the event loop to others between two reads', async () => {
    const bytes = inBytes('{'.padEnd(300_000));
    const senders = await Promise.all(Array.from({ length: 4 }, open));
    for (const sender of senders) sender.write(head('Transfer-Encoding: chunked'));
    for (const sender of senders) sender.write(bytes);
    const statuses: number[] = [];
    for (const sender of senders) void statusOf(sender).then((status) => statuses.push(status));
    let served = 0;
    for (; statuses.length === 0; served += 1)
      expect((await gateway.graphql('{ __typename }', { key })).status).toBe(200);
    // A read has at most 64 KiB, so these bodies take 110 reads. If all were read at once, others would get 28 turns.
    expect(served).toBeGreaterThan(40);
  });

  it('what unfinished bodies hold together is bounded: the slowest are refused with 503', async () => {
    const senders = await Promise.all(Array.from({ length: 100 }, open));
    const statuses: number[] = [];
    for (const sender of senders) {
      void statusOf(sender).then((status) => statuses.push(status));
      sender.write(head(`Content-Length: ${MEGABYTE}`));
      sender.write('x'.repeat(900_000));
    }
    // 64 MiB hold 74 of them, and buffers that grow by doubling fewer.
    await until('some are refused', () => Promise.resolve(statuses.length >= 26));
    expect(new Set(statuses)).toEqual(new Set([503]));
    expect(statuses.length).toBeLessThan(90);
    for (const sender of senders) sender.destroy();
    await until('a body has room again', async () => (await gateway.graphql('{ __typename }', { key })).status === 200);
  });

  it('the longest body that MAX_BODY_BYTES may allow is never refused for its own sake', async () => {
    const patient = await startGateway('server', { MAX_BODY_BYTES: '67108864' });
    const { key: itsKey } = await patient.createKey();
    const { hostname, port } = new URL(patient.url);
    const socket = connect(Number(port), hostname);
    sockets.push(socket);
    const length = 45 * MEGABYTE;
    // A buffer that begins with 5,000 bytes, and doubles, would have 82 MB.
    socket.write(
      `POST /v1/pets HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${itsKey}\r\n` +
        `Content-Type: application/json\r\nContent-Length: ${length}\r\n\r\n${' '.repeat(5_000)}`,
    );
    await sleep(200);
    socket.write('{"name":"Rex","categoryId":1}'.padStart(length - 5_000));
    expect(await statusOf(socket)).toBe(201);
    socket.destroy();
    await patient.close();
  });

  it.each([
    ['members', 19_000, 200],
    ['members', 21_000, 400],
    ['elements', 19_000, 200],
    ['elements', 21_000, 400],
  ])('a body with %s: %i get %i', async (kind, count, expected) => {
    const numbers = Array.from({ length: count }, (_, index) => (kind === 'members' ? `"k${index}":1` : '1')).join();
    const value = kind === 'members' ? `{${numbers}}` : `{"list":[${numbers}]}`;
    const body = `{"query":"{ __typename }","variables":${value}}`;
    const headers = { Authorization: `Bearer ${key}`, 'Content-Type': 'application/json' };
    const startedAt = performance.now();
    const response = await gateway.fetch('/graphql', { method: 'POST', headers, body });
    expect(response.status).toBe(expected);
    expect(performance.now() - startedAt).toBeLessThan(2_000);
  });

  it.each(['Accept', 'Content-Type', 'If-None-Match', 'Access-Control-Request-Headers', 'X-Request-Id'])(
    'white space without end in %s takes no longer than other text',
    async (name) => {
      const socket = await open();
      const startedAt = performance.now();
      socket.write(`GET /graphql HTTP/1.1\r\nHost: x\r\n${name}: a${' '.repeat(15_000)};charset\r\n\r\n`);
      await statusOf(socket);
      expect(performance.now() - startedAt).toBeLessThan(1_000);
    },
  );
});
