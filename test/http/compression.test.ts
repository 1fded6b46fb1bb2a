import { get } from 'node:http';
import * as zlib from 'node:zlib';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startGateway, type Gateway } from '../support/gateway.js';

interface Answer {
  readonly coding: string | undefined;
  readonly vary: string | undefined;
  readonly bytes: Buffer;
}

/** Node has Zstandard since 22.15, and its types for Node 20 do not. */
const { zstdDecompressSync } = zlib as unknown as { readonly zstdDecompressSync?: (bytes: Buffer) => Buffer };

const DECODERS: Readonly<Record<string, ((bytes: Buffer) => Buffer) | undefined>> = {
  br: zlib.brotliDecompressSync,
  gzip: zlib.gunzipSync,
  zstd: zstdDecompressSync,
};

describe('compression', () => {
  let gateway: Gateway;
  let key: string;

  beforeAll(async () => {
    gateway = await startGateway('server');
    ({ key } = await gateway.createKey({ plan: 'business' }));
    await gateway.sql(
      `INSERT INTO pets (name, category_id) SELECT 'Žofka number ' || n, n FROM generate_series(1, 100) AS n`,
    );
  });
  afterAll(() => gateway.close());

  /** `fetch` would decompress the body. */
  function read(path: string, accept?: string, url = gateway.url): Promise<Answer> {
    const headers = { Authorization: `Bearer ${key}`, ...(accept !== undefined && { 'Accept-Encoding': accept }) };
    return new Promise((resolve, reject) => {
      get(url + path, { headers }, (response) => {
        const chunks: Buffer[] = [];
        response.on('data', (chunk: Buffer) => chunks.push(chunk));
        response.on('end', () => {
          const { 'content-encoding': coding, vary } = response.headers;
          const bytes = Buffer.concat(chunks);
          expect(response.headers['content-length']).toBe(String(bytes.length));
          resolve({ coding, vary, bytes });
        });
      }).on('error', reject);
    });
  }

  it.each([
    ['gzip', 'gzip'],
    ['gzip, deflate', 'gzip'],
    ['gzip, deflate, br', 'br'],
    ['gzip, deflate, br, zstd', zstdDecompressSync ? 'zstd' : 'br'],
    ['br;q=0.5, gzip', 'gzip'],
    ['*', zstdDecompressSync ? 'zstd' : 'br'],
    ['identity, gzip;q=0.5', undefined],
    ['deflate', undefined],
    ['gzip;q=0', undefined],
    [undefined, undefined],
  ])('answers Accept-Encoding: %s with %s', async (accept, expected) => {
    const plain = await read('/v1/pets?limit=100');
    const { coding, bytes } = await read('/v1/pets?limit=100', accept);
    expect(coding).toBe(expected);
    const decoded = expected === undefined ? bytes : (DECODERS[expected] as (bytes: Buffer) => Buffer)(bytes);
    expect(decoded.equals(plain.bytes)).toBe(true);
    if (expected !== undefined) expect(bytes.length).toBeLessThan(plain.bytes.length / 3);
  });

  it('leaves short bodies as they are', async () => {
    const { coding, bytes } = await read('/v1/pets?limit=30', 'gzip, br');
    expect([coding, bytes.length < 2_800]).toEqual([undefined, true]);
  });

  it('compresses long bodies, and responses to POST', async () => {
    const fields = Array.from({ length: 20 }, (_, i) => `a${String(i)}: pets(limit: 100) { id name categoryId }`).join(
      ' ',
    );
    const long = await gateway.graphql(`{ ${fields} }`, { key });
    expect([long.headers.get('content-encoding'), long.headers.get('vary')]).toEqual([
      'gzip',
      'Accept, Accept-Encoding',
    ]);
    expect([long.text.length > 100_000, long.data.a19.length]).toEqual([true, 100]);
    const search = new URLSearchParams({ query: `{ ${fields} }` }).toString();
    const { bytes } = await read(`/graphql?${search}`, 'br');
    expect(zlib.brotliDecompressSync(bytes).toString()).toBe(long.text);
  });

  it('is off with COMPRESSION=false', async () => {
    const off = await startGateway('server', { COMPRESSION: 'false' });
    try {
      await off.sql(
        `INSERT INTO pets (name, category_id) SELECT 'Žofka number ' || n, n FROM generate_series(1, 100) AS n`,
      );
      const { key: offKey } = await off.createKey();
      const { coding, bytes } = await (async () => {
        key = offKey;
        return read('/v1/pets?limit=100', 'gzip, br', off.url);
      })();
      expect([coding, bytes.length > 1_024]).toEqual([undefined, true]);
    } finally {
      await off.close();
    }
  });
});
