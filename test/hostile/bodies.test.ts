import { connect, type Socket } from 'node:net';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startGateway, type Gateway } from '../support/gateway.js';
import { makePlace, until, type Place } from '../support/process.js';
import { statementWaits, whileLocked } from '../support/table-lock.js';

const MEGABYTE = 1_000_000;
/** A body of this many bytes, each a chunk of its own. */
const inBytes = (text: string): Buffer => Buffer.from(`${text.replace(/./g, '1\r\n$&\r\n')}0\r\n\r\n`);

describe('bodies that are cut or filled to cost much', () => {
  let place: Place;
  let database: string;
  let gateway: Gateway;
  let key: string;
  const sockets: Socket[] = [];

  beforeAll(async () => {
    place = await makePlace();
    database = await place.database();
    gateway = await startGateway('server', { DATABASE_URL: database });
    ({ key } = await gateway.createKey({ plan: 'business' }));
  });
  afterAll(async () => {
    for (const socket of sockets) socket.destroy();
    await gateway.close();
    await place.close();
  });

  async function open(): Promise<Socket> {
    const { hostname, port } = new URL(gateway.url);
    const socket = connect(Number(port), hostname);
    socket.on('error', () => undefined);
    sockets.push(socket);
    await once(socket, 'connect');
    return socket;
  }

  const head = (headers: string, bearer = key): string =>
    `POST /graphql HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${bearer}\r\nContent-Type: application/json\r\n${headers}\r\n\r\n`;

  async function statusOf(socket: Socket): Promise<number> {
    const [data] = (await once(socket, 'data')) as [Buffer];
    return Number(/^HTTP\/1\.1 (\d+)/.exec(data.toString('latin1'))?.[1]);
  }

  it('a body in one-byte chunks is answered like the same body in one piece', async () => {
    const body = JSON.stringify({ query: '{ __typename }', variables: { text: 'x'.repeat(MEGABYTE / 2) } });
    const whole = await open();
    whole.write(`${head(`Content-Length: ${body.length}`)}${body}`);
    expect(await statusOf(whole)).toBe(200);
    const cut = await open();
    cut.write(head('Transfer-Encoding: chunked'));
    cut.write(inBytes(body));
    expect(await statusOf(cut)).toBe(200);
  });

  it('many one-byte chunks leave the event loop to others between two reads', async () => {
    const bytes = inBytes('{'.padEnd(50_000));
    const { key: other } = await gateway.createKey({ plan: 'business' });
    const senders = await Promise.all(Array.from({ length: 4 }, open));
    for (const sender of senders) sender.write(head('Transfer-Encoding: chunked'));
    for (const sender of senders) sender.write(bytes);
    const statuses: number[] = [];
    for (const sender of senders) void statusOf(sender).then((status) => statuses.push(status));
    let served = 0;
    for (; statuses.length === 0; served += 1)
      expect((await gateway.graphql('{ __typename }', { key: other })).status).toBe(200);
    // A read has at most 64 KiB, so these bodies take 20 reads. If all were read at once, others would get five turns.
    expect(served).toBeGreaterThan(40);
  });

  it.each([
    ['no key', 'POST', false],
    ['no key, and an end', 'POST', true],
    ['a method without a body', 'GET', true],
  ])('one-byte chunks that nobody reads, with %s, leave the event loop to others', async (_, method, isWhole) => {
    const authorization = method === 'GET' ? `Authorization: Bearer ${key}\r\n` : '';
    const request = Buffer.concat([
      Buffer.from(`${method} /v1/pets HTTP/1.1\r\nHost: x\r\n${authorization}Transfer-Encoding: chunked\r\n\r\n`),
      inBytes('{'.padEnd(10_000)).subarray(0, isWhole ? undefined : -5),
    ]);
    const { key: other } = await gateway.createKey({ plan: 'business' });
    let isDone = false;
    let served = 0;
    const serve = async (): Promise<void> => {
      for (; !isDone; served += 1) expect((await gateway.graphql('{ __typename }', { key: other })).status).toBe(200);
    };
    const send = async (): Promise<void> => {
      for (let count = 0; count < 3; count += 1) {
        const socket = await open();
        socket.write(request);
        expect(await statusOf(socket)).toBe(method === 'GET' ? 200 : 401);
        socket.destroy();
      }
    };
    const serving = serve();
    await Promise.all([send(), send()]);
    isDone = true;
    await serving;
    // Without turns, the six requests would leave others about one turn each.
    expect(served).toBeGreaterThan(60);
  });

  it('what unfinished bodies hold together is bounded: the slowest are refused with 503', async () => {
    const keys = await Promise.all(Array.from({ length: 13 }, () => gateway.createKey()));
    const senders = await Promise.all(Array.from({ length: 8 * keys.length }, open));
    const statuses: number[] = [];
    senders.forEach((sender, index) => {
      void statusOf(sender).then((status) => statuses.push(status));
      sender.write(head(`Content-Length: ${MEGABYTE}`, keys[index % keys.length]?.key));
      sender.write('x'.repeat(900_000));
    });
    // 64 MiB hold 74 of them, and buffers that grow by doubling fewer.
    await until('some are refused', () => Promise.resolve(statuses.length >= 30));
    expect(new Set(statuses)).toEqual(new Set([503]));
    expect(statuses.length).toBeLessThan(90);
    for (const sender of senders) sender.destroy();
    await until('a body has room again', async () => (await gateway.graphql('{ __typename }', { key })).status === 200);
  });

  it('a caller has eight long bodies at once, and the next as soon as one of them ends', async () => {
    const { key: greedy } = await gateway.createKey();
    const senders = await Promise.all(Array.from({ length: 20 }, open));
    for (const sender of senders) sender.write(head(`Content-Length: ${MEGABYTE}`, greedy) + 'x'.repeat(900_000));
    await sleep(300);
    const text = JSON.stringify({ query: '{ __typename }', variables: { text: 'x'.repeat(500_000) } });
    const send = async (bearer: string): Promise<number> => {
      const socket = await open();
      socket.write(head(`Content-Length: ${text.length}`, bearer) + text);
      return statusOf(socket);
    };
    expect(await send(key)).toBe(200);
    expect((await gateway.graphql('{ __typename }', { key: greedy })).status).toBe(200);
    let status: number | undefined;
    const waiting = [send(greedy), send(greedy)];
    // Nobody waits long for a place.
    expect(await Promise.all(waiting)).toEqual([503, 503]);
    void send(greedy).then((received) => (status = received));
    await sleep(300);
    expect(status).toBeUndefined();
    for (const sender of senders) sender.destroy();
    await until('its turn comes', () => Promise.resolve(status === 200));
  });

  it('the longest body that MAX_BODY_BYTES may allow is never refused for its own sake', async () => {
    const patient = await startGateway('server', { MAX_BODY_BYTES: '67108864' });
    const { key: itsKey } = await patient.createKey();
    const { hostname, port } = new URL(patient.url);
    const socket = connect(Number(port), hostname).on('error', () => undefined);
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

  const list = (element: (index: number) => string, length: number) =>
    Array.from({ length }, (_, i) => element(i)).join();
  const withVariables = (value: string): string => `{"query":"{ __typename }","variables":${value}}`;

  it.each([
    ['members', `{${list((i) => `"k${i}":1`, 19_900)}`, '}'],
    ['elements', `{"list":[${list(() => '1', 19_900)}`, ']}'],
    ['empty lists', `{"list":[${list(() => '[]', 19_900)}`, ']}'],
    ['levels', `{"list":${'['.repeat(97)}`, `${']'.repeat(97)}}`],
  ])('the limit of JSON %s is checked before a body is parsed', async (_, start, end) => {
    const send = async (body: string): Promise<string> => {
      const headers = { Authorization: `Bearer ${key}`, 'Content-Type': 'application/json' };
      return (await gateway.fetch('/graphql', { method: 'POST', headers, body })).text();
    };
    expect(await send(withVariables(start + end))).toBe('{"data":{"__typename":"Query"}}');
    expect(await send(withVariables(start))).toMatch(/is not valid JSON/);
    // These are no JSON either, but nothing has parsed them.
    expect(await send(withVariables(start + list(() => '[', 200)))).toMatch(
      /holds more than 20000 values|nests deeper than 100 levels/,
    );
  });

  it('a body is parsed when it is the turn of its caller, so that its parsing is charged to that caller', async () => {
    const other = await gateway.createKey();
    const body = withVariables(`{"list":[${list(() => '1', 21_000)}]}`);
    const answered: string[] = [];
    const send = async (name: string, itsKey: string): Promise<void> => {
      const headers = { Authorization: `Bearer ${itsKey}`, 'Content-Type': 'application/json' };
      const { status } = await gateway.fetch('/graphql', { method: 'POST', headers, body });
      answered.push(`${name}: ${status}`);
    };
    const own = await whileLocked(database, async () => {
      const headers = { Authorization: `Bearer ${key}` };
      // As many as may run at once.
      for (let count = 0; count < 64; count += 1) void gateway.fetch('/v1/pets', { headers });
      await statementWaits(database);
      const last = send('own', key);
      await send('other', other.key);
      await send('other', other.key);
      return { last };
    });
    await own.last;
    expect(answered).toEqual(['other: 400', 'other: 400', 'own: 400']);
  });

  it('braces without end in a comment take no longer than other text', async () => {
    const measure = async (filling: string): Promise<number> => {
      const startedAt = performance.now();
      const { status } = await gateway.graphql(`{#${filling.repeat(7_500)}`, { key });
      expect(status).toBe(400);
      return performance.now() - startedAt;
    };
    const differences: number[] = [];
    for (let count = 0; count < 5; count += 1) differences.push((await measure('{#')) - (await measure('xx')));
    expect(Math.min(...differences)).toBeLessThan(40);
  });

  it.each(['Accept', 'Content-Type', 'If-None-Match', 'Access-Control-Request-Headers', 'X-Request-Id'])(
    'white space without end in %s takes no longer than other text',
    async (name) => {
      const socket = await open();
      const measure = async (filling: string): Promise<number> => {
        const startedAt = performance.now();
        socket.write(`GET /graphql HTTP/1.1\r\nHost: x\r\n${name}: a${filling.repeat(15_000)};charset\r\n\r\n`);
        await statusOf(socket);
        return performance.now() - startedAt;
      };
      const differences: number[] = [];
      for (let count = 0; count < 5; count += 1) differences.push((await measure(' ')) - (await measure('x')));
      // An expression that backtracks takes 90 ms and more for it.
      expect(Math.min(...differences)).toBeLessThan(40);
    },
  );
});
