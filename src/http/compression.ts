import { promisify } from 'node:util';
import zlib from 'node:zlib';
import Negotiator from 'negotiator';
import { memoize } from '../access/memoize.js';
import type { MaybePromise } from '../access/maybe-promise.js';
import type { Reply } from './request-context.js';

type Body = Reply['body'];

/** A content coding: https://www.rfc-editor.org/rfc/rfc9110#section-8.4.1 */
export interface Codec {
  readonly name: string;
  readonly compressSync: (body: Body) => Uint8Array;
  readonly compress: (body: Body) => Promise<Uint8Array>;
}

export type ChooseCodec = ReturnType<typeof createCodecChooser>;

/** A shorter body fits into two packets. Compressing it would save one, and add a third to the CPU time of its request. */
const MIN_LENGTH = 2_800;
/** Compressing a longer body takes more time than handing it to another thread, and a shorter one less. */
const MAX_SYNC_LENGTH = 32_768;

/**
 * The fastest levels save three quarters of a list. Slower ones save a tenth more and take up to twice the time. A
 * small window saves as much, and is faster to set up.
 */
const GZIP = { level: 1, windowBits: 12, memLevel: 4 };
const BROTLI = { params: { [zlib.constants.BROTLI_PARAM_QUALITY]: 1 } };

/** Node has Zstandard since 22.15. The types are those of Node 20. */
const { zstdCompress, zstdCompressSync } = zlib as unknown as {
  readonly zstdCompress: ((body: Body, done: (error: Error | null, result: Buffer) => void) => void) | undefined;
  readonly zstdCompressSync: ((body: Body) => Buffer) | undefined;
};
const gzip = promisify(zlib.gzip);
const brotli = promisify(zlib.brotliCompress);

/** The preferred first. */
const CODECS: readonly Codec[] = [
  ...(zstdCompress && zstdCompressSync
    ? [{ name: 'zstd', compressSync: zstdCompressSync, compress: promisify(zstdCompress) }]
    : []),
  {
    name: 'br',
    compressSync: (body) => zlib.brotliCompressSync(body, BROTLI),
    compress: (body) => brotli(body, BROTLI),
  },
  { name: 'gzip', compressSync: (body) => zlib.gzipSync(body, GZIP), compress: (body) => gzip(body, GZIP) },
];
const NAMES = CODECS.map(({ name }) => name);

/** Negotiator 1.0 takes the server's order of preference, which its types do not know. */
interface PreferringNegotiator {
  encoding(available: readonly string[], options: { preferred: readonly string[] }): string | undefined;
}

/** Creates the function that finds the codec that the client prefers. It finds none for a short body. */
export function createCodecChooser() {
  const negotiate = memoize((accept) => {
    const negotiator = new Negotiator({ headers: { 'accept-encoding': accept } }) as unknown as PreferringNegotiator;
    const chosen = negotiator.encoding([...NAMES, 'identity'], { preferred: NAMES });
    return { codec: CODECS.find(({ name }) => name === chosen) };
  });
  return (acceptEncoding: string | undefined, body: Body): Codec | undefined => {
    if (body.length < MIN_LENGTH || acceptEncoding === undefined) return undefined;
    return negotiate(acceptEncoding).codec;
  };
}

export function compress(body: Body, codec: Codec): MaybePromise<Uint8Array> {
  return body.length > MAX_SYNC_LENGTH ? codec.compress(body) : codec.compressSync(body);
}
