import { once } from 'node:events';
import { connect } from 'node:net';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { breakReads, startGateway, STORES, type Gateway } from '../support/gateway.js';
import { createRestClient, expectError, expectLimitHeaders, type Answer, type RestClient } from './requests.js';

const JSON_BODY = { 'Content-Type': 'application/json' };

describe.each(STORES)('REST errors, %s store', (mode) => {
  let gateway: Gateway;
  let client: RestClient;
  let keyless: RestClient;

  beforeAll(async () => {
    gateway = await startGateway(mode, { MAX_BODY_BYTES: '2048', NODE_ENV: 'production' });
    const { key } = await gateway.createKey({ plan: 'free' });
    client = createRestClient(gateway, key);
    keyless = createRestClient(gateway);
  });
  afterAll(() => gateway.close());

  function expectUncharged(answer: Answer): void {
    expectLimitHeaders(answer.headers, { limit: 60, remaining: 60 });
  }

  describe('401', () => {
    it.each(['/v1/pets', '/v1/pets/1', '/v1/pets/seven', '/v1/pets?limit=0'])('without a key: GET %s', async (path) => {
      const answer = await keyless.get(path);
      expectError(answer, 401, 'unauthorized', /Authorization: Bearer/);
      expect(answer.headers.get('www-authenticate')).toBe('Bearer realm="animal-store"');
      expect(answer.headers.get('x-ratelimit-limit')).toBe('60');
    });

    it.each(['Basic dXNlcjpwYXNz', 'Bearer', 'pets_0123'])('with Authorization: %s', async (authorization) => {
      const answer = await keyless.get('/v1/pets', { Authorization: authorization });
      expectError(answer, 401, 'unauthorized');
      expect(answer.headers.get('www-authenticate')).toBe('Bearer realm="animal-store"');
    });

    it('is the same for an unknown, a revoked and an expired key and does not contain the key', async () => {
      const unknown = `pets_${'0'.repeat(38)}`;
      const revoked = await gateway.createKey();
      await gateway.keys.revoke(revoked.id, 'test');
      const expired = await gateway.createKey({ expiresAt: new Date(Date.now() - 1_000) });
      for (const key of [unknown, revoked.key, expired.key]) {
        const answer = await createRestClient(gateway, key).get('/v1/pets');
        expectError(answer, 401, 'unauthorized', /unknown, revoked or expired/);
        expect(answer.headers.get('www-authenticate')).toBe('Bearer realm="animal-store", error="invalid_token"');
        expect(answer.text).not.toContain(key);
      }
    });

    it('takes precedence over errors in the body', async () => {
      expectError(await keyless.post('{'), 401, 'unauthorized');
      expectError(await keyless.post('x'.repeat(5_000)), 401, 'unauthorized');
    });

    it('is not returned for a Bearer scheme in lower case or with extra spaces', async () => {
      const { key } = await gateway.createKey();
      for (const scheme of ['bearer', 'BEARER', 'bEaReR  ']) {
        expect((await keyless.get('/v1/pets', { Authorization: `${scheme} ${key}` })).status).toBe(200);
      }
    });
  });

  it.each(['/v1', '/v1/', '/v1/cats', '/v1/cats/', '/v1/pets//', '/v1/pets/1/photos', '/v1/Pets', '/v1//pets'])(
    'returns 404 for the path %s',
    async (path) => {
      const answer = await client.get(path);
      expectError(answer, 404, 'not_found');
      expectUncharged(answer);
      expectError(await keyless.get(path), 404, 'not_found');
    },
  );

  it.each([
    ['DELETE', '/v1/pets', 'GET, HEAD, POST'],
    ['PUT', '/v1/pets', 'GET, HEAD, POST'],
    ['PATCH', '/v1/pets', 'GET, HEAD, POST'],
    ['OPTIONS', '/v1/pets', 'GET, HEAD, POST'],
    ['POST', '/v1/pets/1', 'GET, HEAD'],
    ['DELETE', '/v1/pets/1', 'GET, HEAD'],
    ['OPTIONS', '/v1/pets/1', 'GET, HEAD'],
    ['POST', '/v1/openapi.json', 'GET, HEAD'],
  ])('returns 405 with Allow for %s %s', async (method, path, allowed) => {
    const answer = await client.send(method, path);
    expectError(answer, 405, 'method_not_allowed', new RegExp(allowed));
    expect(answer.headers.get('allow')).toBe(allowed);
    expectUncharged(answer);
    expectError(await keyless.send(method, path), 405, 'method_not_allowed');
  });

  describe('406', () => {
    it.each(['text/html', 'application/xml', 'application/json;q=0', 'application/graphql-response+json'])(
      'for Accept: %s',
      async (accept) => {
        for (const path of ['/v1/pets', '/v1/pets/1', '/v1/openapi.json']) {
          const answer = await client.get(path, { Accept: accept });
          expectError(answer, 406, 'not_acceptable', /application\/json/);
          expectUncharged(answer);
        }
      },
    );

    it('is returned before an animal is added', async () => {
      const answer = await client.post('{"name":"unwanted","categoryId":1}', { Accept: 'text/html' });
      expectError(answer, 406, 'not_acceptable');
      expect(await gateway.sql(`SELECT id FROM pets WHERE name = 'unwanted'`)).toEqual([]);
    });

    it.each([
      'application/json',
      'application/*',
      '*/*',
      'text/html, application/json;q=0.1',
      'application/json; charset=utf-8',
      'application/json;charset=UTF-8',
    ])('is not returned for Accept: %s', async (accept) => {
      const { key } = await gateway.createKey();
      expect((await createRestClient(gateway, key).get('/v1/pets', { Accept: accept })).status).toBe(200);
    });
  });

  describe('413', () => {
    it.each([2_049, 5_000_000])('for a body of %i bytes with Content-Length', async (size) => {
      for (let attempt = 0; attempt < 5; attempt++) {
        const answer = await client.post('x'.repeat(size));
        expectError(answer, 413, 'payload_too_large', /2048/);
        expectUncharged(answer);
      }
    });

    it('for a body that is too large, without Content-Length', async () => {
      const answer = await client.send('POST', '/v1/pets', {
        body: new Blob(['x'.repeat(3_000_000)]).stream(),
        headers: JSON_BODY,
        duplex: 'half',
      });
      expectError(answer, 413, 'payload_too_large', /2048/);
      expectUncharged(answer);
    });

    it.each([
      ['with Content-Length', 'Content-Length: 9000', 'x'.repeat(3_000), 'x'.repeat(6_000)],
      ['in chunks', 'Transfer-Encoding: chunked', `bb8\r\n${'x'.repeat(3_000)}\r\n`, '0\r\n\r\n'],
    ])('reaches a client that is still sending, and then the connection closes: %s', async (_, header, start, rest) => {
      const { key } = await gateway.createKey();
      const head = `POST /v1/pets HTTP/1.1\r\nHost: store\r\nAuthorization: Bearer ${key}\r\nContent-Type: application/json`;
      const socket = connect(Number(new URL(gateway.url).port), '127.0.0.1').on('error', () => undefined);
      let heard = '';
      socket.setEncoding('utf8').on('data', (text: string) => (heard += text));
      socket.write(`${head}\r\n${header}\r\n\r\n${start}`);
      await vi.waitFor(() => expect(heard).toContain('payload_too_large'), 5_000);
      socket.write(`${rest}GET /v1/dogs HTTP/1.1\r\nHost: store\r\nConnection: close\r\n\r\n`);
      await once(socket, 'close');
      expect(heard.match(/HTTP\/1\.1/g)).toHaveLength(1);
      expect(heard).toMatch(/^HTTP\/1\.1 413 (?:.+\r\n)*Connection: close\r\n/);
      expect(gateway.logged.filter(({ path }) => path === '/v1/dogs')).toEqual([]);
    });

    it('is not returned for a body of exactly the maximum size', async () => {
      const body = '{"name":"","categoryId":1}'.padEnd(2_048);
      expectError(await client.post(body), 400, 'invalid_request');
    });
  });

  it.each([
    ['text/plain', {}],
    ['application/x-www-form-urlencoded', {}],
    ['application/vnd.api+json', {}],
    ['application/jsonx', {}],
    ['application/json; charset=iso-8859-1', {}],
    ['application/json', { 'Content-Encoding': 'gzip' }],
  ])('returns 415 for the content type %s %o', async (type, headers) => {
    const answer = await client.post('{"name":"Rex","categoryId":1}', { 'Content-Type': type, ...headers });
    expectError(answer, 415, 'unsupported_media_type');
    expectUncharged(answer);
  });

  it('returns 415 for a body without a content type', async () => {
    const body = new TextEncoder().encode('{"name":"Rex","categoryId":1}');
    const answer = await client.send('POST', '/v1/pets', { body });
    expectError(answer, 415, 'unsupported_media_type', /nothing/);
    expectUncharged(answer);
  });

  it('gives every response a request id, the one of the client if it is valid', async () => {
    const answers = [await client.get('/v1/cats'), await keyless.get('/v1/pets'), await client.post('{')];
    const ids = answers.map(({ headers }) => headers.get('x-request-id'));
    expect(new Set(ids).size).toBe(3);
    for (const id of ids) expect(id).toMatch(/^[\w.:-]{1,128}$/);
    const own = await client.get('/v1/cats', { 'X-Request-Id': 'mine:1' });
    expect(own.headers.get('x-request-id')).toBe('mine:1');
  });

  it('masks an unexpected error and logs it in full', async () => {
    const { key } = await gateway.createKey();
    const other = createRestClient(gateway, key);
    const repair = await breakReads(gateway);
    const answer = await other.get('/v1/pets');
    await repair();
    expectError(answer, 500, 'internal_error');
    expect(answer.text).not.toMatch(/pets|division|SELECT|\bat /);
    const requestId = answer.headers.get('x-request-id');
    const line = gateway.logged.find((logged) => logged.requestId === requestId && logged.code === 'internal_error');
    expect(JSON.stringify(line)).toContain('division by zero');
    expectLimitHeaders(answer.headers, { limit: 1_000, remaining: 999 });
  });

  it.each(['53000', '58030'])(
    'returns 503 if the database lacks a resource or cannot use a file (%s)',
    async (code) => {
      const { key } = await gateway.createKey();
      const repair = await breakReads(gateway, code);
      const answer = await createRestClient(gateway, key).get('/v1/pets');
      await repair();
      expectError(answer, 503, 'unavailable');
    },
  );
});
