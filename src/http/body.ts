import { isUtf8 } from 'node:buffer';
import type { IncomingMessage } from 'node:http';
import { StoreError } from '../errors.js';
import { parseUntrustedJson } from '../json/exact-json.js';
import { shorten } from './media-type.js';
import type { RequestContext } from './request-context.js';

/** How messages speak of the body as a whole. */
export const BODY = 'The request body';

/**
 * Reads a request body, which must be uncompressed JSON in UTF-8.
 * @param limit - in bytes. A body whose `Content-Length` is larger is not read at all.
 * @param example - a body to send instead of an empty one
 * @throws StoreError `unsupported_media_type`, `payload_too_large`, or `bad_request` if the body is not JSON or ends
 * early
 */
export async function readJsonBody(context: RequestContext, limit: number, example: string): Promise<unknown> {
  const { request, response } = context;
  requireJson(context.header('content-type'), context.header('content-encoding'));
  if (Number(request.headers['content-length'] ?? 0) > limit) throw tooLarge(limit);
  // The rest of the request has been checked, so the client may now send the body.
  if (expectsContinue(request)) response.writeContinue();
  const bytes = await collect(request, limit);
  context.arrivedAt = performance.now();
  if (!isUtf8(bytes)) {
    throw new StoreError('bad_request', 'The request body must be JSON in UTF-8; these bytes are not UTF-8.');
  }
  if (bytes.length === 0) throw new StoreError('bad_request', `The request body is empty: send ${example}.`);
  return parseUntrustedJson(bytes.toString('utf8'), BODY);
}

/** A refusal says what would be accepted: https://www.rfc-editor.org/rfc/rfc9110#section-15.5.16 */
function requireJson(contentType: string | undefined, contentEncoding: string | undefined): void {
  const [type, ...parameters] = (contentType ?? '').split(';').map((part) => part.trim().toLowerCase());
  if (type !== 'application/json') {
    const came = contentType === undefined ? 'nothing' : shorten(contentType);
    const reason = `The Content-Type must be application/json, got ${came}.`;
    throw new StoreError('unsupported_media_type', reason, { headers: { Accept: 'application/json' } });
  }
  const charset = parameters.find((parameter) => parameter.startsWith('charset='));
  if (charset !== undefined && !/^charset=utf-?8$/.test(charset.replaceAll('"', ''))) {
    throw new StoreError('unsupported_media_type', 'The charset of the Content-Type must be utf-8.');
  }
  if (contentEncoding !== undefined && contentEncoding.toLowerCase() !== 'identity') {
    const reason = 'A compressed request body is not supported: send it without Content-Encoding.';
    throw new StoreError('unsupported_media_type', reason, { headers: { 'Accept-Encoding': 'identity' } });
  }
}

function collect(request: IncomingMessage, limit: number): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let size = 0;
    request.on('data', (chunk: Buffer) => {
      size += chunk.length;
      if (size <= limit) chunks.push(chunk);
      else {
        request.removeAllListeners('data');
        reject(tooLarge(limit));
      }
    });
    request.once('end', () => resolve(chunks.length === 1 ? (chunks[0] as Buffer) : Buffer.concat(chunks)));
    request.once('error', reject);
    request.once('aborted', () => reject(new StoreError('bad_request', 'The request body ended early.')));
  });
}

function tooLarge(limit: number): StoreError {
  return new StoreError('payload_too_large', `The request body is larger than ${limit} bytes.`);
}

/** HTTP/1.0 has no informational responses: https://www.rfc-editor.org/rfc/rfc9110#section-10.1.1 */
function expectsContinue({ headers, httpVersion }: IncomingMessage): boolean {
  return httpVersion === '1.1' && headers.expect?.toLowerCase() === '100-continue';
}

/** The most that is read of a body after its request was answered. A client with less left keeps its connection. */
const MAX_DRAINED_BYTES = 262_144;
const MAX_DRAIN_MS = 1_000;

/** Whether the rest of a body is short enough to be read after its request was answered. */
export function isDrainable(request: IncomingMessage): boolean {
  return Number(request.headers['content-length']) <= MAX_DRAINED_BYTES && !expectsContinue(request);
}

/**
 * Discards the rest of a body after its request was answered: a client that is still sending when the connection closes
 * may never read its response. It takes a second at most, and few bytes: beyond them, the client has to wait.
 * @returns whether the body is complete
 */
export function drainBody(request: IncomingMessage): Promise<boolean> {
  let left = MAX_DRAINED_BYTES;
  request.on('data', ({ length }: Buffer) => {
    left -= length;
    if (left < 0) request.pause();
  });
  return new Promise((resolve) => {
    const stop = (): void => {
      clearTimeout(timer);
      resolve(request.complete);
    };
    const timer = setTimeout(stop, MAX_DRAIN_MS).unref();
    request.once('end', stop).once('close', stop);
    request.resume();
  });
}
