import { brotliCompressSync, deflateRawSync, deflateSync, gzipSync } from 'node:zlib';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { startProxyBefore, type ProxyOnly } from '../support/gateway.js';
import { send, startScriptedUpstream, type ScriptedUpstream } from '../support/scripted-upstream.js';

const BODY = '[{"id":1,"name":"Ä","categoryId":1}]';

describe('the body of an upstream response', () => {
  let upstream: ScriptedUpstream;
  let gateway: ProxyOnly;

  beforeEach(async () => {
    upstream = await startScriptedUpstream();
    gateway = await startProxyBefore(upstream.url);
  });
  afterEach(async () => {
    await gateway.close();
    await upstream.close();
  });

  const ask = () => gateway.graphql('{ pets { id name } }', { key: 'a' });

  it.each([
    ['gzip', gzipSync(BODY)],
    ['GZIP', gzipSync(BODY)],
    ['x-gzip', gzipSync(BODY)],
    ['identity, gzip', gzipSync(BODY)],
    ['', Buffer.from(BODY)],
    ['br', brotliCompressSync(BODY)],
    ['deflate', deflateSync(BODY)],
    ['deflate', deflateRawSync(BODY)],
    ['identity', Buffer.from(BODY)],
  ])('may be encoded as %j although nobody asked for that', async (encoding, body) => {
    upstream.play((_, response) => {
      response.writeHead(200, { 'Content-Encoding': encoding });
      response.end(body);
    });
    expect((await ask()).data.pets).toEqual([{ id: '1', name: 'Ä' }]);
    expect(upstream.seen[0]?.headers['accept-encoding']).toBe('identity');
  });

  it.each([
    ['an unknown encoding', 'zip', gzipSync(BODY)],
    ['two encodings', 'gzip, br', brotliCompressSync(gzipSync(BODY))],
    ['a wrong encoding', 'br', gzipSync(BODY)],
    ['an incomplete encoding', 'gzip', gzipSync(BODY).subarray(0, -12)],
    ['a gigabyte in a few bytes', 'gzip', gzipSync(Buffer.alloc(100_000_000, ' '))],
  ])('with %s becomes UPSTREAM_ERROR', async (_, encoding, body) => {
    upstream.play((_request, response) => {
      response.writeHead(200, { 'Content-Encoding': encoding });
      response.end(body);
    });
    expect((await ask()).errors?.[0]?.extensions.code).toBe('UPSTREAM_ERROR');
  });

  it('may begin with a byte order mark', async () => {
    upstream.play((_, response) => send(response, 200, `\uFEFF${BODY}`));
    expect((await ask()).data.pets).toEqual([{ id: '1', name: 'Ä' }]);
  });

  it('of an error may be encoded too', async () => {
    const body = { code: 'no', message: 'In their words.', status: 400 };
    upstream.play((_, response) => {
      response.writeHead(400, { 'Content-Encoding': 'gzip' });
      response.end(gzipSync(JSON.stringify(body)));
    });
    expect((await ask()).errors?.[0]?.extensions.error).toEqual(body);
  });

  /** A response whose body, in Latin-1, comes in chunks of one byte. */
  const inBytes = (body: string): Buffer => {
    const chunks = Array.from(body, (character) => `1\r\n${character}\r\n`).join('');
    return Buffer.from(`HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n${chunks}0\r\n\r\n`, 'latin1');
  };

  it('may arrive in chunks of one byte', async () => {
    const pets = Array.from({ length: 20 }, (_, i) => ({ id: i, name: 'x'.repeat(200), categoryId: 1 }));
    const body = JSON.stringify(pets).padEnd(65_000);
    upstream.play((_, response) => void response.socket?.write(inBytes(body)));
    expect((await ask()).data.pets).toEqual(pets.map(({ id, name }) => ({ id: String(id), name })));
  });

  it('in a million chunks is refused, although it is valid', async () => {
    upstream.play((_, response) => void response.socket?.write(inBytes(`[${' '.repeat(1_000_000)}]`)));
    expect((await ask()).errors?.[0]?.extensions.code).toBe('UPSTREAM_ERROR');
  });

  it('may have a status that this version does not know', async () => {
    upstream.play(({ path }, response) => {
      const strange = '{"id":1,"name":"a","categoryId":1,"status":"adopted"}';
      send(
        response,
        200,
        path === '/pets/1' ? strange : `[${strange},{"id":2,"name":"b","categoryId":1,"status":"sold"}]`,
      );
    });
    const { data, errors } = await gateway.graphql('{ pets { id name } pet(id: 1) { name } }', { key: 'a' });
    expect(errors).toBeUndefined();
    expect(data).toEqual({
      pets: [
        { id: '1', name: 'a' },
        { id: '2', name: 'b' },
      ],
      pet: { name: 'a' },
    });
  });

  it('has only animals with the status that was asked for, or with one that is not known here', async () => {
    const statuses = ['sold', 'available', undefined, 'adopted', 'available'];
    const pets = statuses.map((status, id) => ({ id, name: 'x', categoryId: 1, status }));
    upstream.play((_, response) => send(response, 200, pets));
    const { data } = await gateway.graphql('{ pets(status: AVAILABLE, limit: 2) { id } }', { key: 'a' });
    expect(data.pets).toEqual([{ id: '1' }, { id: '3' }]);
  });

  it('has animals with any other status without it, and an error where it is selected', async () => {
    const pets = [null, 1, 'adopted', {}].map((status, id) => ({ id, name: 'x', categoryId: 1, status }));
    upstream.play((_, response) => send(response, 200, pets));
    const { data, errors = [] } = await gateway.graphql('{ pets { id status } }', { key: 'a' });
    expect(data.pets).toEqual(pets.map(({ id }) => ({ id: String(id), status: null })));
    expect(errors.map(({ path, extensions }) => [path, extensions.code])).toEqual(
      pets.map(({ id }) => [['pets', id, 'status'], 'UPSTREAM_ERROR']),
    );
    expect((await gateway.graphql('{ pets { id } }', { key: 'a' })).errors).toBeUndefined();
  });

  it('has at most as many animals as were asked for', async () => {
    const pets = Array.from({ length: 150 }, (_, i) => ({ id: 150 - i, name: 'x', categoryId: 1 }));
    upstream.play((_, response) => send(response, 200, pets));
    for (const limit of [3, 100]) {
      const { data } = await gateway.graphql(`{ pets(limit: ${limit}) { id } }`, { key: 'a' });
      expect(data.pets).toEqual(Array.from({ length: limit }, (_, i) => ({ id: String(i + 1) })));
    }
  });
});
