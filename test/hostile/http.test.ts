import { once } from 'node:events';
import { Agent, request, type IncomingMessage, type RequestOptions } from 'node:http';
import { gzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { petStatements, startGateway, type Gateway } from '../support/gateway.js';
import { flood, sendRaw, trickle } from './raw-http.js';

const CHUNK = Buffer.from(`10000\r\n${'a'.repeat(65_536)}\r\n`);
/** An upper bound for the bytes that the socket buffers of both ends hold while the server does not read. */
const BUFFERS = 16_000_000;
const BYTES = Buffer.from('1\r\na\r\n'.repeat(10_000));

/** On a busy machine, a client that floods may see that its connection was reset before it has read the response. */
const MAY_MISS_RESPONSE = { retry: 2 };

describe('hostile HTTP', () => {
  let gateway: Gateway;
  let key: string;
  let head: string;

  beforeAll(async () => {
    gateway = await startGateway('server');
    ({ key } = await gateway.createKey());
    head = `Host: x\r\nAuthorization: Bearer ${key}\r\nContent-Type: application/json\r\n`;
    await gateway.graphql('{ __typename }', { key });
  });
  afterAll(() => gateway.close());

  describe.each(['/graphql', '/v1/pets'])('oversized bodies for %s', (path) => {
    it('are refused by their Content-Length before any of the body arrives', async () => {
      const { status, answeredAfter, endedAfter } = await sendRaw(gateway.url, (socket) =>
        socket.write(`POST ${path} HTTP/1.1\r\n${head}Content-Length: 10000000000\r\n\r\n`),
      );
      expect(status).toBe(413);
      expect(endedAfter - answeredAfter).toBeGreaterThan(500);
    });

    it('get 413 instead of 100 Continue', async () => {
      const { status, text } = await sendRaw(gateway.url, (socket) =>
        socket.write(`POST ${path} HTTP/1.1\r\n${head}Expect: 100-continue\r\nContent-Length: 2000000\r\n\r\n`),
      );
      expect(status).toBe(413);
      expect(text).not.toContain('100 Continue');
    });

    it.each([
      ['with Content-Length', 'Content-Length: 10000000000', Buffer.alloc(65_536, 97)],
      ['chunked', 'Transfer-Encoding: chunked', CHUNK],
    ])('are not read to the end: %s', MAY_MISS_RESPONSE, async (_, header, chunk) => {
      const { status, written } = await sendRaw(gateway.url, (socket, isOpen) => {
        socket.write(`POST ${path} HTTP/1.1\r\n${head}${header}\r\n\r\n`);
        flood(socket, isOpen, chunk);
      });
      expect(status).toBe(413);
      expect(written).toBeLessThan(BUFFERS);
    });
  });

  it.each([
    ['without a key', 'POST /v1/pets', 401, CHUNK],
    ['to an unknown path', 'POST /nowhere', 404, CHUNK],
    ['to a health check', 'GET /livez', 200, CHUNK],
    ['without a key, in one-byte chunks', 'POST /v1/pets', 401, BYTES],
    ['to a health check, in one-byte chunks', 'GET /livez', 200, BYTES],
  ])('stops reading an endless body %s', MAY_MISS_RESPONSE, async (_, start, expected, chunk) => {
    const { status, written } = await sendRaw(gateway.url, (socket, isOpen) => {
      socket.write(`${start} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n`);
      flood(socket, isOpen, chunk);
    });
    expect(status).toBe(expected);
    expect(written).toBeLessThan(BUFFERS);
  });

  it('sends 100 Continue for an acceptable request', async () => {
    const body = '{"query":"{ __typename }"}';
    const { text } = await sendRaw(gateway.url, (socket) => {
      socket.write(
        `POST /graphql HTTP/1.1\r\n${head}Connection: close\r\nExpect: 100-continue\r\nContent-Length: ${body.length}\r\n\r\n`,
      );
      socket.once('data', () => socket.write(body));
    });
    expect(text).toMatch(/^HTTP\/1\.1 100 Continue\r\n\r\nHTTP\/1\.1 200 OK\r\n/);
  });

  it('keeps the connection usable after a slightly oversized body', async () => {
    for (let i = 0; i < 3; i++) {
      const response = await gateway.fetch('/graphql', {
        method: 'POST',
        headers: { Authorization: `Bearer ${key}`, 'Content-Type': 'application/json' },
        body: ' '.repeat(1_048_577 + i),
      });
      expect([response.status, ((await response.json()) as any).errors[0].extensions.code]).toEqual([
        413,
        'BAD_REQUEST',
      ]);
    }
  });

  it.each([
    ['one header of 25 kB', `X: ${'a'.repeat(25_000)}\r\n`],
    ['many headers of 25 kB in total', `X: ${'a'.repeat(1_000)}\r\n`.repeat(25)],
    ['thousands of short headers', 'A: b\r\n'.repeat(5_000)],
    ['200 more headers', 'A: b\r\n'.repeat(199)],
  ])('returns 431 for %s', async (_, headers) => {
    const { status } = await sendRaw(gateway.url, (socket) =>
      socket.write(`GET /livez HTTP/1.1\r\nHost: x\r\nConnection: close\r\n${headers}\r\n`),
    );
    expect(status).toBe(431);
  });

  it('accepts headers below 16 kB', async () => {
    const { status } = await sendRaw(gateway.url, (socket) =>
      socket.write(`GET /livez HTTP/1.1\r\nHost: x\r\nConnection: close\r\nX: ${'a'.repeat(15_000)}\r\n\r\n`),
    );
    expect(status).toBe(200);
  });

  it('returns 431 for an endless header', async () => {
    const { status, written } = await sendRaw(gateway.url, (socket, isOpen) => {
      socket.write('GET /livez HTTP/1.1\r\nHost: x\r\nX: ');
      flood(socket, isOpen, Buffer.alloc(65_536, 97));
    });
    expect(status).toBe(431);
    expect(written).toBeLessThan(BUFFERS);
  });

  it.each(['/graphql', '/v1/pets'])('returns 415 for a gzip bomb to %s, and never decompresses it', async (path) => {
    const bomb = gzipSync(Buffer.alloc(100_000_000, 32));
    for (const encoding of ['gzip', 'deflate', 'br', 'gzip, gzip', 'GZIP']) {
      const response = await gateway.fetch(path, {
        method: 'POST',
        headers: { Authorization: `Bearer ${key}`, 'Content-Type': 'application/json', 'Content-Encoding': encoding },
        body: bomb,
      });
      expect(response.status).toBe(415);
      await response.text();
    }
    const plain = await gateway.fetch(path, {
      method: 'POST',
      headers: { Authorization: `Bearer ${key}`, 'Content-Type': 'application/json' },
      body: bomb,
    });
    expect(plain.status).toBe(400);
    await plain.text();
  });

  it.each([
    ['a transfer coding besides chunked', 'application/json\r\nTransfer-Encoding: gzip, chunked'],
    ['a second charset', 'application/json; charset=utf-8; charset=utf-16\r\nTransfer-Encoding: chunked'],
  ])('returns 415 for %s', async (_, type) => {
    const { status } = await sendRaw(gateway.url, (socket) =>
      socket.write(
        `POST /v1/pets HTTP/1.1\r\n${head.replace('application/json', type)}Connection: close\r\n\r\n2\r\n{}\r\n0\r\n\r\n`,
      ),
    );
    expect(status).toBe(415);
  });

  it.each([
    ['bytes that are not HTTP', '\0\x01\x02 nothing\r\n\r\n'],
    ['two lengths', 'POST /graphql HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd'],
    [
      'a length and chunks',
      'POST /graphql HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n',
    ],
    ['a negative length', 'POST /graphql HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n'],
    ['a bad chunk', 'POST /graphql HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzzz\r\n'],
    ['a transfer coding of gzip', 'POST /graphql HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip\r\n\r\nabc'],
    ['no host', 'GET /livez HTTP/1.1\r\n\r\n'],
    ['another protocol', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'],
    ['a bare line feed in a header', 'GET /livez HTTP/1.1\r\nHost: x\r\nX: a\nY : b\r\n\r\n'],
  ])('returns 400 for %s', async (_, bytes) => {
    const { status, text } = await sendRaw(gateway.url, (socket) => socket.write(bytes, 'latin1'));
    expect(status).toBe(400);
    expect(text).toMatch(/\r\nX-Request-Id: [\w-]{36}\r\n/);
    expect(text).toContain('\r\nX-Content-Type-Options: nosniff\r\n');
  });

  it('names a missing Host header in the Error body', async () => {
    const { text } = await sendRaw(gateway.url, (socket) =>
      socket.write('GET /v1/pets HTTP/1.1\r\nConnection: close\r\n\r\n'),
    );
    expect(text).toContain('"code":"invalid_request","message":"An HTTP/1.1 request needs a Host header."');
  });

  it.each([
    ['/graphql', 'Host: x\r\nhost: y\r\n'],
    ['/v1/pets', 'Host: x\r\nAuthorization: Bearer a\r\nAUTHORIZATION: Bearer b\r\n'],
    ['/graphql', 'Host: x\r\nAuthorization: Bearer a\r\nAuthorization: Bearer a\r\n'],
    ['/v1/pets', 'Host: x\r\nContent-Type: application/json\r\nContent-Type: text/plain\r\n'],
    ['/livez', 'Host: x\r\nHost: x\r\n'],
  ])('returns 400 if %s gets a header twice that may come once: %j', async (path, headers) => {
    const { status, text } = await sendRaw(gateway.url, (socket) =>
      socket.write(`GET ${path} HTTP/1.1\r\n${headers}\r\n`),
    );
    expect([status, text]).toEqual([400, expect.stringContaining('"code":"invalid_request"')]);
    if (path === '/livez') return;
    expect(text).toContain('X-RateLimit-Limit: ');
    if (path === '/graphql') expect(text).toContain('{"errors":[{"message":"A request may have one ');
  });

  it('cuts long paths in the log', async () => {
    await gateway.fetch(`/${'a'.repeat(5_000)}`);
    const paths = gateway.logged.flatMap(({ path }) => (typeof path === 'string' ? [path] : []));
    expect(paths).toContain(`/${'a'.repeat(255)}`);
    expect(Math.max(...paths.map(({ length }) => length))).toBe(256);
  });

  it.each([
    ['POST', '/v1/nowhere', 300_000, 404],
    ['PUT', '/graphql', 300_000, 405],
    ['POST', '/v1/nowhere', 100_000, 404],
  ])(
    'says whether the connection closes after a refusal before the body: %s %s, %d bytes',
    async (method, path, length, status) => {
      const agent = new Agent({ keepAlive: true, maxSockets: 1 });
      const ask = async (options: RequestOptions, body?: Buffer): Promise<[unknown, unknown]> => {
        const sent = request(gateway.url + String(options.path), { ...options, agent });
        // The connection may close before the whole body is sent.
        sent.on('error', () => undefined).end(body);
        const [response] = (await once(sent, 'response')) as [IncomingMessage];
        await once(response.resume(), 'end');
        return [response.statusCode, response.headers.connection];
      };
      for (let i = 0; i < 5; i += 1) {
        const [refusal] = await ask({ method, path }, Buffer.alloc(length, 32));
        expect(refusal).toBe(status);
        // Sent over the same connection unless the refusal said that it closes.
        expect(await ask({ path: '/livez' })).toEqual([200, 'keep-alive']);
      }
      agent.destroy();
      const isOwn = (line: Record<string, unknown>): boolean => line.method === method && line.path === path;
      expect(gateway.logged.filter((line) => isOwn(line) && line.status === 499)).toEqual([]);
    },
  );

  it('sends no 100 Continue to an HTTP/1.0 client', async () => {
    const body = '{"query":"{ __typename }"}';
    const { text } = await sendRaw(gateway.url, (socket) =>
      socket.write(
        `POST /graphql HTTP/1.0\r\n${head}Expect: 100-continue\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
      ),
    );
    expect(text).toMatch(/^HTTP\/1\.1 200 /);
  });

  it('ignores an unknown Expect header', async () => {
    const { status } = await sendRaw(gateway.url, (socket) =>
      socket.write(`GET /v1/pets HTTP/1.1\r\n${head}Expect: a-miracle\r\nConnection: close\r\n\r\n`),
    );
    expect(status).toBe(200);
  });

  it('disconnects slow senders within fifteen seconds and serves other clients meanwhile', async () => {
    const post = (path: string) => `POST ${path} HTTP/1.1\r\n${head}Content-Length: 1000\r\n\r\n`;
    const kinds: [string, string][] = [
      ['', ''],
      ['GET /livez HTTP/1.1\r\n', 'X: y\r\n'],
      [post('/graphql'), ' '],
      [post('/v1/pets'), ' '],
    ];
    const body = '{"name":"Too late","categoryId":1}';
    const late = sendRaw(gateway.url, (socket) => {
      socket.write(`POST /v1/pets HTTP/1.1\r\n${head}Content-Length: ${body.length}\r\n\r\n{`);
      socket.once('data', () => socket.write(body.slice(1)));
    });
    let served = 0;
    let slowest = 0;
    const over = new AbortController();
    const others = (async () => {
      while (!over.signal.aborted) {
        const startedAt = performance.now();
        expect((await gateway.graphql('{ __typename }', { key })).status).toBe(200);
        slowest = Math.max(slowest, performance.now() - startedAt);
        served += 1;
        await new Promise((resolve) => setTimeout(resolve, 50));
      }
    })();
    const cut = await Promise.all(
      Array.from({ length: 200 }, (_, n) => {
        const [start, more] = kinds[n % kinds.length] as [string, string];
        return sendRaw(gateway.url, (socket, isOpen) => {
          if (start) socket.write(start);
          if (more) trickle(socket, isOpen, more);
        });
      }),
    );
    over.abort();
    await others;
    const longest = Math.max(...cut.map(({ endedAfter }) => endedAfter));
    console.log(
      `200 slow senders were cut after ${(longest / 1_000).toFixed(1)} s at the latest; ${served} other requests meanwhile, the slowest in ${slowest.toFixed(0)} ms`,
    );
    expect(new Set(cut.map(({ status }) => status))).toEqual(new Set([408]));
    expect((await late).status).toBe(408);
    expect(await gateway.sql(`SELECT id FROM pets WHERE name = 'Too late'`)).toEqual([]);
    expect(served).toBeGreaterThan(20);
  });

  it.each([
    `/v1/pets?${'limit=1&'.repeat(1_000)}`,
    `/v1/pets?${Array.from({ length: 1_000 }, (_, i) => `p${i}=1`).join('&')}`,
    '/v1/pets?limit[]=1',
    '/v1/pets?limit=1%00',
    '/v1/pets?__proto__=1',
    '/v1/pets?constructor=1&__proto__[limit]=1',
    '/v1/pets?limit=%ff%fe',
    '/v1/pets?limit=%',
    '/v1/pets?=&=&',
    '/v1/pets?%E2%80%AE=1',
    `/v1/pets?limit=${'9'.repeat(10_000)}`,
    '/v1/pets?limit=1?limit=2',
    '/v1/pets/%00',
    '/v1/pets/%ff',
    '/v1/pets/1%2f..%2f2',
    `/v1/pets/${'9'.repeat(10_000)}`,
  ])('returns 400 for an absurd query string or path: %#', async (path) => {
    gateway.statements.length = 0;
    const response = await gateway.fetch(path, { headers: { Authorization: `Bearer ${key}` } });
    expect([response.status, await response.json()]).toMatchObject([400, { code: 'invalid_request', status: 400 }]);
    expect(petStatements(gateway)).toEqual([]);
  });

  it('names no server software and prevents other sites from embedding its pages', async () => {
    const answers = await Promise.all([
      gateway.fetch('/graphql', { headers: { Accept: 'text/html' } }),
      gateway.fetch('/explorer', { headers: { Accept: 'text/html' } }),
      gateway.fetch('/v1/openapi.json'),
      gateway.fetch('/nowhere'),
      gateway.fetch('/livez'),
    ]);
    for (const { headers } of answers) {
      expect(headers.get('x-content-type-options')).toBe('nosniff');
      expect([...headers.keys()].filter((name) => /server|powered/.test(name))).toEqual([]);
      expect(JSON.stringify([...headers])).not.toMatch(/express|fastify|apollo server|node\.js/i);
    }
    for (const { status, headers } of answers.slice(0, 2)) {
      expect(status).toBe(200);
      expect(headers.get('content-security-policy')).toContain("frame-ancestors 'none'");
      expect(headers.has('referrer-policy')).toBe(true);
    }
    await Promise.all(answers.map((answer) => answer.text()));
  });
});
