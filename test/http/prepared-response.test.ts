import { createServer, IncomingMessage, request, type Server } from 'node:http';
import { Socket, type AddressInfo } from 'node:net';
import { once } from 'node:events';
import { afterEach, expect, it } from 'vitest';
import { formatLimitHeaders } from '../../src/http/limit-headers.js';
import { PreparedResponse } from '../../src/http/prepared-response.js';

const LINES = 'X-One: 1\r\nX-Two: "minute";q=60;w=60, a:b\r\n';

let server: Server<typeof IncomingMessage, typeof PreparedResponse> | undefined;
afterEach(() => server?.close());

async function serve(answer: (response: PreparedResponse) => void): Promise<number> {
  server = createServer({ ServerResponse: PreparedResponse }, (_request, response) => answer(response));
  await once(server.listen(0, '127.0.0.1'), 'listening');
  return (server.address() as AddressInfo).port;
}

/** What comes back for requests that are sent one after the other on one connection, the last of which closes it. */
async function readBytes(port: number, requests: string): Promise<string> {
  const socket = new Socket().connect(port, '127.0.0.1');
  socket.write(requests);
  const chunks: Buffer[] = [];
  for await (const chunk of socket) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks).toString('latin1');
}

it('sends lines as they are, before all that Node adds, and in their own answer alone', async () => {
  let answered = 0;
  const port = await serve((response) => {
    if (answered++ === 0) response.addLines(LINES, []);
    response.sendDate = false;
    response.writeHead(200, ['X-Three', '3', 'Content-Length', '2']).end('ok');
  });
  expect(
    await readBytes(port, 'GET /1 HTTP/1.1\r\nHost: a\r\n\r\nGET /2 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n'),
  ).toBe(
    `HTTP/1.1 200 OK\r\n${LINES}X-Three: 3\r\nContent-Length: 2\r\nConnection: keep-alive\r\nKeep-Alive: timeout=5\r\n\r\nok` +
      'HTTP/1.1 200 OK\r\nX-Three: 3\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok',
  );
});

it.each([true, undefined])('leaves the headers alone where Node takes lines, as this one does (%s)', (areTaken) => {
  const headers = ['X-Three', '3'];
  makeResponse().addLines(LINES, headers, areTaken);
  expect(headers).toEqual(['X-Three', '3']);
});

it('adds lines to the headers where Node does not take them, and the client sees the same', async () => {
  const headers = ['X-Three', '3'];
  makeResponse().addLines(LINES, headers, false);
  expect(headers).toEqual(['X-Three', '3', 'X-One', '1', 'X-Two', '"minute";q=60;w=60, a:b']);

  const seen = [];
  for (const areTaken of [true, false]) {
    const port = await serve((response) => {
      const list = ['X-Three', '3'];
      response.addLines(LINES, list, areTaken);
      response.writeHead(204, list).end();
    });
    const [answer] = (await once(request({ port, host: '127.0.0.1' }).end(), 'response')) as [IncomingMessage];
    answer.resume();
    const { date, ...others } = answer.headers;
    expect(date).toBeDefined();
    seen.push(others);
    server?.close();
  }
  expect(seen[0]).toEqual(seen[1]);
  expect(seen[0]).toMatchObject({ 'x-one': '1', 'x-two': '"minute";q=60;w=60, a:b', 'x-three': '3' });
});

it('gets limits as lines: each window with its own seconds, whoever asked before', () => {
  const now = Date.UTC(2026, 0, 1);
  const lines = (minuteMs: number, dayMs: number, left: [number, number]): string =>
    formatLimitHeaders(
      [
        { name: 'minute', seconds: 60, limit: 60, remaining: left[0], resetAt: now + minuteMs },
        { name: 'day', seconds: 86_400, limit: 1_000, remaining: left[1], resetAt: now + dayMs },
      ],
      now,
    );
  const policy = 'RateLimit-Policy: "minute";q=60;w=60, "day";q=1000;w=86400\r\n';
  for (let round = 0; round < 2; round++) {
    expect(lines(41_001, 86_300_000, [57, 997])).toBe(
      'X-RateLimit-Limit: 60\r\nX-RateLimit-Remaining: 57\r\nX-RateLimit-Reset: 1767225642\r\n' +
        `${policy}RateLimit: "minute";r=57;t=42, "day";r=997;t=86300\r\n`,
    );
    expect(lines(60_000, 5, [60, 3])).toBe(
      'X-RateLimit-Limit: 1000\r\nX-RateLimit-Remaining: 3\r\nX-RateLimit-Reset: 1767225601\r\n' +
        `${policy}RateLimit: "minute";r=60;t=60, "day";r=3;t=1\r\n`,
    );
  }
  expect(formatLimitHeaders([], now)).toBe('');
  expect(formatLimitHeaders([{ name: 'default', seconds: null, limit: 9, remaining: 0, resetAt: now - 1 }], now)).toBe(
    'X-RateLimit-Limit: 9\r\nX-RateLimit-Remaining: 0\r\nX-RateLimit-Reset: 1767225600\r\n' +
      'RateLimit-Policy: "default";q=9\r\nRateLimit: "default";r=0;t=0\r\n',
  );
});

function makeResponse(): PreparedResponse {
  return new PreparedResponse(new IncomingMessage(new Socket()));
}
