import { isUtf8 } from 'node:buffer';
import { once } from 'node:events';
import type { IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import { overloaded, StoreError } from '../errors.js';
import { parseUntrustedJson } from '../json/exact-json.js';
import { shorten } from './media-type.js';
import type { HttpRequest } from './request.js';

/** How messages speak of the body as a whole. */
export const BODY = 'The request body';

/**
 * Parses the body of a request. A byte order mark before it is ignored.
 * @param example - a body to send instead of an empty one
 * @throws StoreError `bad_request` if it is not JSON in UTF-8
 */
export function parseJsonBody({ body }: HttpRequest, example: string): unknown {
  if (!isUtf8(body)) throw new StoreError('bad_request', `${BODY} must be JSON in UTF-8; these bytes are not UTF-8.`);
  if (body.length === 0) throw new StoreError('bad_request', `${BODY} is empty: send ${example}.`);
  return parseUntrustedJson(body.toString('utf8').replace(/^\uFEFF/, ''), BODY);
}

/** The most bytes of all bodies together that have arrived and whose requests are not answered. */
const MAX_BYTES_TOGETHER = 64 * 1_024 * 1_024;

/** A body of which some has arrived. */
interface Arriving {
  readonly startedAt: number;
  /** Its buffer, in bytes. */
  size: number;
  readonly refuse: (error: StoreError) => void;
}

/** The first buffer of a body that comes in pieces, in bytes. */
const FIRST_BYTES = 4_096;
/**
 * Each piece of a body costs as much as a hundred bytes, whatever its length. The connection that sends each further
 * so many of them, over all bodies, has to wait: such connections are read one after the other, with this time between
 * two reads, in milliseconds.
 */
const MANY_PIECES = 5_000;
const BETWEEN_READS_MS = 20;

/**
 * Creates the function that reads the body of a request, which must be uncompressed JSON. Until its request has been
 * answered, a body counts towards the bytes that all bodies may have together. Beyond them, the slowest are refused.
 * @param maxBytes - of one body
 */
export function createBodyReader(maxBytes: number) {
  const arriving = new Set<Arriving>();
  let bytesTogether = 0;
  let pieces = 0;
  const readsToCome: (() => void)[] = [];
  let timer: NodeJS.Timeout | undefined;

  /**
   * @throws StoreError `unsupported_media_type`, `payload_too_large`, `overloaded`, or `bad_request` if the body ends
   * early. A body whose `Content-Length` is too large is not read at all.
   */
  return async (request: HttpRequest): Promise<void> => {
    const { message, response } = request;
    requireJson(request.header('content-type'), request.header('content-encoding'));
    if (Number(message.headers['content-length'] ?? 0) > maxBytes) throw tooLarge();
    // The rest of the request has been checked, so the client may now send the body.
    if (expectsContinue(message)) response.writeContinue();
    request.body = await collect(request);
    request.startedAt = performance.now();
  };

  function collect({ message, response }: HttpRequest): Promise<Buffer> {
    return new Promise((resolve, reject) => {
      const stop = (error: StoreError): void => {
        message.removeAllListeners('data');
        release();
        reject(error);
      };
      const body: Arriving = { startedAt: performance.now(), size: 0, refuse: stop };
      const release = (): void => {
        bytesTogether -= body.size;
        body.size = 0;
        arriving.delete(body);
      };
      let buffer: Buffer | undefined;
      let length = 0;
      arriving.add(body);
      response.once('close', release);
      message.on('data', (piece: Buffer) => {
        if (length + piece.length > maxBytes) {
          stop(tooLarge());
          return;
        }
        buffer = append(buffer, length, piece, maxBytes);
        length += piece.length;
        reserve(body, buffer.length);
        pieces += 1;
        if (pieces >= MANY_PIECES) readLater(message.socket);
      });
      message.once('end', () => {
        arriving.delete(body);
        resolve(buffer?.subarray(0, length) ?? Buffer.alloc(0));
      });
      message.once('error', () => reject(new StoreError('bad_request', `${BODY} ended early.`)));
    });
  }

  function reserve(body: Arriving, size: number): void {
    if (size === body.size) return;
    bytesTogether += size - body.size;
    body.size = size;
    while (bytesTogether > MAX_BYTES_TOGETHER && arriving.size > 0) findSlowest().refuse(overloaded());
  }

  /** The body that has received the fewest bytes for its time. */
  function findSlowest(): Arriving {
    const now = performance.now();
    const speed = ({ size, startedAt }: Arriving): number => size / (now - startedAt + 1);
    return [...arriving].reduce((slowest, body) => (speed(body) < speed(slowest) ? body : slowest));
  }

  function readLater(socket: Socket): void {
    pieces = 0;
    readsToCome.push(stopReading(socket));
    timer ??= setTimeout(readNext, BETWEEN_READS_MS);
  }

  function readNext(): void {
    readsToCome.shift()?.();
    timer = readsToCome.length > 0 ? setTimeout(readNext, BETWEEN_READS_MS) : undefined;
  }

  function tooLarge(): StoreError {
    return new StoreError('payload_too_large', `${BODY} is larger than ${maxBytes} bytes.`);
  }
}

/**
 * Stops reading a connection. What has been read goes on to arrive: a paused request would keep all of its pieces.
 * @returns the function that goes on reading
 */
function stopReading(socket: Socket): () => void {
  // A request that is read resumes its connection again and again.
  const stayPaused = (): void => void socket.pause();
  socket.pause().on('resume', stayPaused);
  return () => socket.off('resume', stayPaused).resume();
}

/** Adds a piece to a buffer, which doubles when it is full. A body in one piece is not copied. */
function append(buffer: Buffer | undefined, length: number, piece: Buffer, maxBytes: number): Buffer {
  if (!buffer) return piece;
  const end = length + piece.length;
  let target = buffer;
  if (end > buffer.length) {
    target = Buffer.allocUnsafeSlow(Math.min(maxBytes, Math.max(FIRST_BYTES, 2 * buffer.length, end)));
    buffer.copy(target, 0, 0, length);
  }
  piece.copy(target, length);
  return target;
}

/** A refusal says what would be accepted: https://www.rfc-editor.org/rfc/rfc9110#section-15.5.16 */
function requireJson(contentType: string | undefined, contentEncoding = ''): void {
  const [type, ...parameters] = (contentType ?? '').split(';').map((part) => part.trim().toLowerCase());
  const charset = parameters.find((parameter) => parameter.startsWith('charset=')) ?? 'charset=utf-8';
  if (type !== 'application/json' || !/^charset="?utf-?8"?$/.test(charset)) {
    const came = contentType === undefined ? 'nothing' : shorten(contentType);
    const reason = `The Content-Type must be application/json in UTF-8, got ${came}.`;
    throw new StoreError('unsupported_media_type', reason, { headers: { Accept: 'application/json' } });
  }
  if (!['', 'identity'].includes(contentEncoding.trim().toLowerCase())) {
    const reason = 'A compressed request body is not supported: send it without Content-Encoding.';
    throw new StoreError('unsupported_media_type', reason, { headers: { 'Accept-Encoding': 'identity' } });
  }
}

/** HTTP/1.0 has no informational responses: https://www.rfc-editor.org/rfc/rfc9110#section-10.1.1 */
function expectsContinue({ headers, httpVersion }: IncomingMessage): boolean {
  return httpVersion === '1.1' && headers.expect?.toLowerCase() === '100-continue';
}

/** The most that is read of a body after its request was answered. */
const MAX_DRAINED_BYTES = 262_144;
const MAX_DRAINED_PIECES = 1_000;
const MAX_DRAIN_MS = 1_000;

/**
 * Discards the rest of a body after its request was answered, for a second at most: a client that is still sending when
 * the connection closes may never read its response. Beyond few bytes, the client has to wait.
 */
export async function drainBody(message: IncomingMessage): Promise<void> {
  let bytes = 0;
  let pieces = 0;
  const count = ({ length }: Buffer): void => {
    bytes += length;
    pieces += 1;
    if (bytes <= MAX_DRAINED_BYTES && pieces <= MAX_DRAINED_PIECES) return;
    message.off('data', count);
    stopReading(message.socket);
  };
  message.on('data', count).resume();
  await once(message, 'close', { signal: AbortSignal.timeout(MAX_DRAIN_MS) }).catch(() => undefined);
}
