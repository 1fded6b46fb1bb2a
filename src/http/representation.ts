import { createHash } from 'node:crypto';
import { chain, type MaybePromise } from '../access/maybe-promise.js';
import { compress, type ChooseCodec, type Codec } from './compression.js';
import type { RequestContext, Reply } from './request-context.js';

/** The headers of a reply that clients may store, but must revalidate each time they use it. */
export const REVALIDATED = { 'Cache-Control': 'private, no-cache' };

/**
 * Turns a reply into what is sent. A successful reply with the headers `REVALIDATED` gets a strong ETag, or becomes a 304
 * if the client has it already. A body is compressed if the client accepts that.
 * @param chooseCodec - absent if nothing is to be compressed
 */
export function represent(context: RequestContext, reply: Reply, chooseCodec?: ChooseCodec): MaybePromise<Reply> {
  const { status, headers, body } = reply;
  const codec = chooseCodec?.(context.header('accept-encoding'), body);
  const isRevalidated = headers['Cache-Control'] === REVALIDATED['Cache-Control'];
  if (!isRevalidated && !codec) return reply;
  const vary = { Vary: isRevalidated ? toVary(context) : [headers.Vary, 'Accept-Encoding'].filter(Boolean).join(', ') };
  if (!isRevalidated || status >= 300 || body.length === 0) return encode(reply, codec, vary);
  const hash = createHash('sha256').update(headers['Content-Type'] ?? '');
  const digest = hash.update(body).digest('base64url').slice(0, 27);
  const tag = toEntityTag(digest, codec?.name);
  const known = findKnown(context, digest, tag);
  const further = { ETag: known ?? tag, ...vary };
  if (known !== undefined) {
    const { 'Content-Type': _, ...rest } = headers;
    return { ...reply, status: 304, headers: { ...rest, ...further }, body: '' };
  }
  return encode(reply, codec, further);
}

function encode(reply: Reply, codec: Codec | undefined, further: Record<string, string>): MaybePromise<Reply> {
  const headers = { ...reply.headers, ...further, ...(codec && { 'Content-Encoding': codec.name }) };
  if (!codec) return { ...reply, headers };
  return chain(compress(reply.body, codec), (body) => ({ ...reply, headers, body }));
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
