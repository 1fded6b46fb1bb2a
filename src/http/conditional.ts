import { createHash } from 'node:crypto';
import type { Reply } from './reply.js';
import type { HttpRequest } from './request.js';

/** The headers of a reply that clients may store, but must revalidate each time they use it. */
export const REVALIDATED = { 'Cache-Control': 'private, no-cache' };

/** Adds a strong ETag to a successful reply with the headers `REVALIDATED`. It becomes a 304 if the client has it already. */
export function toConditional(request: HttpRequest, reply: Reply): Reply {
  const { status, headers, body } = reply;
  if (headers['Cache-Control'] !== REVALIDATED['Cache-Control']) return reply;
  // With an `Origin`, the CORS headers have a `Vary` of their own.
  const Vary = `Accept, Authorization${request.header('origin') === undefined ? ', Origin' : ''}`;
  if (status >= 300 || body.length === 0) return { ...reply, headers: { ...headers, Vary } };
  const hash = createHash('sha256').update(headers['Content-Type'] ?? '');
  const ETag = `"${hash.update(body).digest('base64url').slice(0, 27)}"`;
  // https://www.rfc-editor.org/rfc/rfc9110#section-13.1.2
  const sent = request.header('if-none-match') ?? '';
  const isKnown = sent.includes(ETag) || (sent.trim() === '*' && !reply.failures?.length);
  if (!isKnown) return { ...reply, headers: { ...headers, ETag, Vary } };
  const { 'Content-Type': _, ...rest } = headers;
  return { ...reply, status: 304, headers: { ...rest, ETag, Vary }, body: '' };
}
