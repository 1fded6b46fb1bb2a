import { createHash } from 'node:crypto';
import { promisify } from 'node:util';
import zlib from 'node:zlib';
import Negotiator from 'negotiator';
import { chain, type MaybePromise } from '../access/maybe-promise.js';
import { memoize } from '../bounded-cache.js';
import type { RequestContext, Reply } from './request-context.js';

/** The headers of a reply that clients may store, but must revalidate each time they use it. */
export const REVALIDATED = { 'Cache-Control': 'private, no-cache' };

type Body = Reply['body'];

/** A content coding: https://www.rfc-editor.org/rfc/rfc9110#section-8.4.1 */
interface Codec {
  readonly name: string;
  readonly compressSync: (body: Body) => Uint8Array;
  readonly compress: (body: Body) => Promise<Uint8Array>;
}

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
  readonly zstdCompressSync: (body: Body) => Buffer;
};
const gzip = promisify(zlib.gzip);
const brotli = promisify(zlib.brotliCompress);

/** The preferred first. */
const CODECS: readonly Codec[] = [
  ...(zstdCompress ? [{ name: 'zstd', compressSync: zstdCompressSync, compress: promisify(zstdCompress) }] : []),
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

/** Creates the function that turns replies into what is sent. */
export function createRepresent() {
  const negotiate = memoize((accept) => {
    const negotiator = new Negotiator({ headers: { 'accept-encoding': accept } }) as unknown as PreferringNegotiator;
    const chosen = negotiator.encoding([...NAMES, 'identity'], { preferred: NAMES });
    return { codec: CODECS.find(({ name }) => name === chosen) };
  });

  /**
   * A successful reply with the headers `REVALIDATED` gets a strong ETag, or becomes a 304 if the client has it already.
   * @param compresses - whether a long body is compressed if the client accepts that
   */
  return (context: RequestContext, reply: Reply, compresses: boolean): MaybePromise<Reply> => {
    const { status, headers, body } = reply;
    const accept = compresses && body.length >= MIN_LENGTH ? context.header('accept-encoding') : undefined;
    const codec = accept === undefined ? undefined : negotiate(accept).codec;
    const isRevalidated = headers['Cache-Control'] === REVALIDATED['Cache-Control'];
    if (!isRevalidated && !codec) return reply;
    const Vary = isRevalidated ? toVary(context) : [headers.Vary, 'Accept-Encoding'].filter(Boolean).join(', ');
    if (!isRevalidated || status >= 300 || body.length === 0) return encode(reply, codec, { Vary });
    const hash = createHash('sha256').update(headers['Content-Type'] ?? '');
    const digest = hash.update(body).digest('base64url').slice(0, 27);
    const tag = toEntityTag(digest, codec?.name);
    const known = findKnown(context, digest, tag);
    if (known === undefined) return encode(reply, codec, { ETag: tag, Vary });
    const { 'Content-Type': _, ...rest } = headers;
    return { ...reply, status: 304, headers: { ...rest, ETag: known, Vary }, body: '' };
  };
}

function encode(reply: Reply, codec: Codec | undefined, further: Record<string, string>): MaybePromise<Reply> {
  const headers = { ...reply.headers, ...further, ...(codec && { 'Content-Encoding': codec.name }) };
  if (!codec) return { ...reply, headers };
  const compress = reply.body.length > MAX_SYNC_LENGTH ? codec.compress : codec.compressSync;
  return chain(compress(reply.body), (body) => ({ ...reply, headers, body }));
}

/** With an `Origin`, the CORS headers have a `Vary` of their own. */
function toVary(context: RequestContext): string {
  return `Accept, Accept-Encoding, Authorization${context.header('origin') === undefined ? ', Origin' : ''}`;
}

/** Each coding of a body has its own tag: https://www.rfc-editor.org/rfc/rfc9110#section-8.8.3.3 */
function toEntityTag(digest: string, coding?: string): string {
  return coding === undefined ? `"${digest}"` : `"${digest}-${coding}"`;
}

/**
 * Finds the tag of this body among those that the client has: in the current coding, in none, or in another that the
 * client accepts. https://www.rfc-editor.org/rfc/rfc9110#section-13.1.2
 */
function findKnown(context: RequestContext, digest: string, current: string): string | undefined {
  const sent = context.header('if-none-match');
  if (sent?.trim() === '*') return current;
  const codings = context.header('accept-encoding')?.match(/\w+/g) ?? [];
  const usable = [current, toEntityTag(digest), ...codings.map((coding) => toEntityTag(digest, coding))];
  return sent?.match(/"[^"]*"/g)?.find((tag) => usable.includes(tag));
}
