import { isUtf8 } from 'node:buffer';
import { once } from 'node:events';
import type { IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import { overloaded, StoreError } from '../errors.js';
import { parseUntrustedJson } from '../json/exact-json.js';
import { shorten } from './media-type.js';
import { createPacer } from './pacer.js';
import { Pieces } from './pieces.js';
import { createPlaces, type Place } from './places.js';
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

/** Refuses a body of which some has arrived. */
type Refuse = (error: StoreError) => void;

/**
 * Each piece of a body costs as much as a hundred bytes, whatever its length. They are counted over all bodies, and
 * whenever there are this many, the connection that sent the last one has to wait, if its own body has many. Such
 * connections are read one after the other, with this time between two reads, in milliseconds.
 */
const MANY_PIECES = 5_000;
const MANY_PIECES_OF_ONE = 100;
const BETWEEN_READS_MS = 500;
/** Of the bodies of one caller that are longer than this many bytes, so many are read at once. The others wait. */
const LONG_BYTES = 32_768;
const LONG_BODIES_AT_ONCE = 8;

/**
 * Creates the function that reads the body of a request, if it has one. It must be uncompressed JSON. Until its request
 * has been answered, a body counts towards the bytes that all bodies may have together. Beyond them, the slowest are
 * refused.
 * @param maxBytes - of one body
 */
export function createBodyReader(maxBytes: number) {
  /** The first is the one of which nothing has arrived for the longest time. */
  const arriving = new Set<Refuse>();
  let bytesTogether = 0;
  let recentPieces = 0;
  const pace = createPacer(BETWEEN_READS_MS);
  const takePlace = createPlaces(LONG_BODIES_AT_ONCE);

  /**
   * @throws StoreError `unsupported_media_type`, `payload_too_large`, `overloaded`, or `bad_request` if the body ends
   * early. A body whose `Content-Length` is too large is not read at all.
   */
  return async (request: HttpRequest): Promise<void> => {
    const { message, response } = request;
    const { 'content-type': type, 'content-length': length, 'transfer-encoding': coding } = message.headers;
    if (type === undefined && coding === undefined && !Number(length)) return;
    requireJson(type, request.header('content-encoding'));
    if (Number(length) > maxBytes) throw tooLarge();
    // The rest of the request has been checked, so the client may now send the body.
    if (expectsContinue(message)) response.writeContinue();
    request.body = await collect(request);
    request.startedAt = performance.now();
  };

  function collect({ message, response, caller }: HttpRequest): Promise<Buffer> {
    return new Promise((resolve, reject) => {
      const stop: Refuse = (error) => {
        message.removeAllListeners('data');
        release();
        reject(error);
      };
      let pieces = new Pieces();
      let place: Place | undefined;
      let pause: Pause | undefined;
      const end = (): void => {
        arriving.delete(stop);
        pause?.end();
        place?.leave();
        place = undefined;
      };
      const release = (): void => {
        bytesTogether -= pieces.length;
        pieces = new Pieces();
        end();
      };
      response.once('close', release);
      message.on('data', (piece: Buffer) => {
        if (pieces.length + piece.length > maxBytes) {
          stop(tooLarge());
          return;
        }
        pieces.add(piece);
        bytesTogether += piece.length;
        if (!pause?.isPaused) {
          arriving.delete(stop);
          arriving.add(stop);
        }
        while (bytesTogether > MAX_BYTES_TOGETHER) {
          const [refuseSlowest = stop] = arriving;
          refuseSlowest(overloaded());
          if (refuseSlowest === stop) return;
        }
        recentPieces += 1;
        if (recentPieces >= MANY_PIECES && pieces.count >= MANY_PIECES_OF_ONE) {
          recentPieces = 0;
          pause ??= new Pause(message.socket);
          void pace(() => message.socket.destroyed).then(pause.begin());
        }
        if (pieces.length > LONG_BYTES && !place) {
          pause ??= new Pause(message.socket);
          const goOn = pause.begin();
          place = takePlace(caller, goOn);
          if (place.isTaken) goOn();
        }
      });
      message.once('end', () => {
        end();
        resolve(pieces.join());
      });
      message.once('error', () => reject(new StoreError('bad_request', `${BODY} ended early.`)));
    });
  }

  function tooLarge(): StoreError {
    return new StoreError('payload_too_large', `${BODY} is larger than ${maxBytes} bytes.`);
  }
}

/**
 * Stops reading a connection while there is something to wait for. What has been read goes on to arrive: a paused request
 * would keep all of its pieces.
 */
class Pause {
  private waits = 0;
  private readonly stay = (): void => {
    if (this.isPaused) this.socket.pause();
  };

  constructor(private readonly socket: Socket) {}

  get isPaused(): boolean {
    return this.waits > 0;
  }

  /** @returns the function to call when this need not wait any longer */
  begin(): () => void {
    this.waits += 1;
    if (this.waits === 1) {
      // A request that is read resumes its connection again and again, at the latest in the next tick.
      this.socket.on('resume', this.stay);
      process.nextTick(this.stay);
    }
    return () => {
      this.waits -= 1;
      if (this.waits === 0) this.socket.off('resume', this.stay).resume();
    };
  }

  /** Waits for nothing any longer. */
  end(): void {
    if (this.waits > 0) this.socket.off('resume', this.stay).resume();
    this.waits = -Infinity;
  }
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
  // A list may have empty elements: https://www.rfc-editor.org/rfc/rfc9110#section-5.6.1.2
  if (!/^(?:[\s,]|identity)*$/i.test(contentEncoding)) {
    const reason = 'A compressed request body is not supported: send it without Content-Encoding.';
    throw new StoreError('unsupported_media_type', reason, { headers: { 'Accept-Encoding': 'identity' } });
  }
}

/** HTTP/1.0 has no informational responses: https://www.rfc-editor.org/rfc/rfc9110#section-10.1.1 */
function expectsContinue({ headers, httpVersion }: IncomingMessage): boolean {
  return httpVersion === '1.1' && headers.expect?.toLowerCase() === '100-continue';
}

/**
 * A body in chunks that nobody has read to its end costs the event loop microseconds for each. How many there are shows
 * only when they are discarded. So requests with such bodies are answered one by one, with this time between two of
 * them, in milliseconds: clients that repeat them leave the event loop to others.
 */
const BETWEEN_UNREAD_MS = 500;

/** Creates the function that waits until such a request may be answered. It returns undefined if there is no need to. */
export function createUnreadBodyWait(): (message: IncomingMessage) => Promise<void> | undefined {
  const pace = createPacer(BETWEEN_UNREAD_MS);
  return (message) => {
    const { complete, headers, readableDidRead } = message;
    if (headers['transfer-encoding'] === undefined || (complete && readableDidRead)) return undefined;
    if (complete) message.resume();
    else void drainBody(message);
    return pace(() => message.socket.destroyed);
  };
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
    new Pause(message.socket).begin();
  };
  message.on('data', count).resume();
  await once(message, 'close', { signal: AbortSignal.timeout(MAX_DRAIN_MS) }).catch(() => undefined);
}
