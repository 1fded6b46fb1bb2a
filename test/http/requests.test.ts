import { IncomingMessage, ServerResponse } from 'node:http';
import { Socket } from 'node:net';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { HttpRequest, readAddress } from '../../src/http/request.js';
import { sendRaw } from '../hostile/raw-http.js';
import { startGateway, type Gateway } from '../support/gateway.js';
import { request } from '../support/raw-request.js';

it.each([
  ['1.2.3.4', '1.2.3.4'],
  ['::ffff:1.2.3.4', '1.2.3.4'],
  ['::FFFF:102:304', '::ffff:102:304'],
  ['2001:db8::1', '2001:db8:0:0::/64'],
])('a client with the address %s is counted as %s', (forwarded, network) => {
  const message = { headers: { 'x-forwarded-for': forwarded }, socket: {} } as unknown as IncomingMessage;
  expect(readAddress(message, true).network).toBe(network);
});

it('a path that is longer than every route is not decoded', () => {
  const toPath = (url: string): string => {
    const message = Object.assign(new IncomingMessage(new Socket()), { url });
    return new HttpRequest(message, new ServerResponse(message), { address: 'x', network: 'x' }).path;
  };
  const [short, long] = ['/%41'.repeat(50), '/%41'.repeat(100)] as const;
  expect([toPath(short), toPath(long)]).toEqual(['/A'.repeat(50), long]);
});

describe('requests in other forms', () => {
  let gateway: Gateway;
  let key: string;

  beforeAll(async () => {
    gateway = await startGateway('server');
    ({ key } = await gateway.createKey({ plan: 'business' }));
  });
  afterAll(() => gateway.close());

  it.each(['/%67raphql', '/graph%71l/', '/v1/%70ets', '/%761/pets/', '/%6C%69vez'])(
    'the path %s is the same without its needless encoding',
    async (path) => {
      const query = path.includes('g') || path.includes('q') ? `?query=${encodeURIComponent('{ pets { id } }')}` : '';
      const headers = { Host: 'x', Authorization: `Bearer ${key}` };
      expect((await request(gateway.url, { path: path + query, headers })).status).toBe(200);
    },
  );

  it.each(['/%2Fgraphql', '/graphql%2F', '/v1%2Fpets'])('the path %s is another one', async (path) => {
    const headers = { Host: 'x', Authorization: `Bearer ${key}` };
    expect((await request(gateway.url, { path, headers })).status).toBe(404);
  });

  it.each([
    ['/graphql', '{"query":"{ __typename }"}', 200],
    ['/v1/pets', '{"name":"\uFEFFRex","categoryId":1}', 201],
  ])('a byte order mark before a JSON body for %s is ignored, but only one', async (path, body, status) => {
    const headers = { Authorization: `Bearer ${key}`, 'Content-Type': 'application/json' };
    const marked = await gateway.fetch(path, { method: 'POST', headers, body: `\uFEFF${body}` });
    expect(marked.status).toBe(status);
    if (status === 201) expect(((await marked.json()) as { name: string }).name).toBe('\uFEFFRex');
    const twice = await gateway.fetch(path, { method: 'POST', headers, body: `\uFEFF\uFEFF${body}` });
    expect(twice.status).toBe(400);
  });

  it.each(['', ' ', 'identity', 'Identity', ',', 'identity, identity'])(
    'the Content-Encoding "%s" is none',
    async (encoding) => {
      const response = await gateway.fetch('/v1/pets', {
        method: 'POST',
        headers: {
          Authorization: `Bearer ${key}`,
          'Content-Type': 'application/json',
          'Content-Encoding': encoding,
        },
        body: '{"name":"Rex","categoryId":1}',
      });
      expect(response.status).toBe(201);
    },
  );

  it('a chunked body in HTTP/1.0 is answered, and the connection closes', async () => {
    const body = '{"query":"{ __typename }"}';
    const { status, text } = await sendRaw(gateway.url, (socket) =>
      socket.write(
        'POST /graphql HTTP/1.0\r\nConnection: keep-alive\r\nContent-Type: application/json\r\n' +
          `Transfer-Encoding: chunked\r\n\r\n${body.length.toString(16)}\r\n${body}\r\n0\r\n\r\n`,
      ),
    );
    expect(status).toBe(200);
    expect(text).toMatch(/\r\nConnection: close\r\n/);
  });

  it.each(['application/json;q=0, */*', 'text/html', '*/*;q=0'])('REST refuses Accept: %s with 406', async (accept) => {
    const headers = { Authorization: `Bearer ${key}`, Accept: accept };
    expect((await gateway.fetch('/v1/pets', { headers })).status).toBe(406);
  });
});
