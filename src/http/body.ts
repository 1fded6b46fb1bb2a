import { once } from 'node:events';
import type { IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import type { MaybePromise } from '../access/maybe-promise.js';
import { callAfter } from '../clock.js';
import { overloaded, StoreError, toStoreError } from '../errors.js';
import { BODY } from '../json/exact-json.js';
import type { FairQueue } from './fair-queue.js';
import { shorten } from './media-type.js';
import { Pieces } from './pieces.js';
import { createPlaces } from './places.js';
import type { Reply } from './reply.js';
import type { HttpRequest } from './request.js';

/** The most bytes of all bodies together that have arrived and whose requests are not answered. */
const MAX_BYTES_TOGETHER = 64 * 1_024 * 1_024;

/** A body up to this length is not refused for want of bytes: one caller may have taken all of them. */
const SMALL_BYTES = 4_096;

/** What a piece costs the event loop, whatever its length, in milliseconds. */
const PIECE_MS = 0.004;
/** After this many pieces that are shorter than this on average, a body waits for a turn before it is read further. */
const MANY_PIECES = 100;
const SHORT_PIECE_BYTES = 256;
/** Beside other callers, reading such a body counts this many times its duration, because nobody else runs meanwhile. */
const READ_FACTOR = 10;
/**
 * What a body that nobody reads counts, so that the caller's next requests wait while there are other callers. As many
 * pieces as one read of a connection can have take a fifth of it.
 */
export const UNREAD_MS = 200;

/** Of the bodies of one caller that are longer than this, so many are read at once. The others wait. */
const LONG_BYTES = 32_768;
const LONG_BODIES_AT_ONCE = 8;
/** How long a body waits until it is read further, in milliseconds. */
const LONG_BODY_WAIT_MS = 4_000;

/** What a turn ends with that only makes up for what has been read. */
export const CONTINUE: Reply = { status: 100, headers: {}, body: '' };

/**
 * Creates the function that reads the body of a request, if it has one. It must be uncompressed JSON. Until its request
 * has been answered, a body counts towards the bytes that all bodies may have together. Beyond them, the slowest are
 * refused.
 * @param maxBytes - of one body
 * @param takeTurn - a body in many pieces takes a turn before each further read
 */
export function createBodyReader(maxBytes: number, takeTurn: FairQueue<Reply>) {
  /** Refuses a body that is arriving. The first is the one of which nothing has arrived for the longest time. */
  const arriving = new Set<(error: StoreError) => void>();
  let bytesTogether = 0;
  const takePlace = createPlaces(LONG_BODIES_AT_ONCE);

  /**
   * @throws StoreError `unsupported_media_type`, `payload_too_large`, `overloaded`, or `bad_request` if the body ends
   * early. A body whose `Content-Length` is too large is not read at all.
   */
  return (request: HttpRequest): MaybePromise<void> => {
    const { destroyed, headers, httpVersion } = request.message;
    const { 'content-type': type, 'content-length': length, 'transfer-encoding': coding, expect } = headers;
    if (type === undefined && coding === undefined && !Number(length)) return;
    if (destroyed) throw endedEarly();
    requireJson(type, request.header('content-encoding'), coding);
    if (Number(length) > maxBytes) throw tooLarge();
    // The rest of the request has been checked, so the client may now send the body. HTTP/1.0 has no informational
    // responses: https://www.rfc-editor.org/rfc/rfc9110#section-10.1.1
    if (httpVersion === '1.1' && expect?.toLowerCase() === '100-continue') request.response.writeContinue();
    return collect(request);
  };

  function collect(request: HttpRequest): Promise<void> {
    const { message, response, caller } = request;
    const length = Number(message.headers['content-length']);
    return new Promise((resolve, reject) => {
      let pieces: Pieces | undefined = new Pieces();
      let bytes = 0;
      /** The pieces for which no turn was taken. */
      let unpaid = 0;
      let resume: (() => void) | undefined;
      let leavePlace: (() => void) | undefined;
      const goOn = (): void => {
        resume?.();
        resume = undefined;
      };
      const end = (): void => {
        arriving.delete(refuse);
        goOn();
        pieces = undefined;
      };
      const release = (): void => {
        end();
        leavePlace?.();
        leavePlace = undefined;
        bytesTogether -= bytes;
        bytes = 0;
      };
      const refuse = (error: StoreError): void => {
        message.removeAllListeners('data').pause();
        release();
        reject(error);
      };
      const waitForTurn = async (startedAt: number): Promise<void> => {
        unpaid = 0;
        try {
          await takeTurn(caller, () => CONTINUE, READ_FACTOR * (performance.now() - startedAt));
          goOn();
        } catch (error) {
          refuse(toStoreError(error));
        }
      };
      response.once('close', release);
      message.on('data', (piece: Buffer) => {
        pieces?.add(piece);
        unpaid += 1;
        bytes += piece.length;
        bytesTogether += piece.length;
        if (!resume && !leavePlace && bytes > LONG_BYTES) {
          resume = pauseReading(message.socket);
          const prevent = callAfter(LONG_BODY_WAIT_MS, () => refuse(overloaded()));
          const leave = takePlace(caller, () => {
            prevent();
            goOn();
          });
          leavePlace = () => {
            prevent();
            leave();
          };
        }
        if (!resume && unpaid > MANY_PIECES + bytes / SHORT_PIECE_BYTES) {
          resume = pauseReading(message.socket);
          // Before the next tick, the rest of what has been read arrives.
          process.nextTick(waitForTurn, performance.now() - unpaid * PIECE_MS);
        }
        // Most bodies are complete with their first piece.
        if (bytes !== length) {
          arriving.delete(refuse);
          arriving.add(refuse);
        }
        if (bytes > maxBytes) refuse(tooLarge());
        for (const refuseSlowest of arriving) {
          if (bytesTogether <= MAX_BYTES_TOGETHER) break;
          refuseSlowest(overloaded());
        }
        // Those that are complete wait for their turns.
        if (bytes > SMALL_BYTES && bytesTogether > MAX_BYTES_TOGETHER) refuse(overloaded());
      });
      message.once('end', () => {
        // The connection has had its last response: the request took too long to arrive.
        if (!message.socket.writable) return reject(endedEarly());
        if (pieces) request.body = pieces.join();
        request.readingMs = unpaid * PIECE_MS;
        end();
        request.startedAt = performance.now();
        resolve();
      });
      message.once('error', () => reject(endedEarly()));
    });
  }

  function tooLarge(): StoreError {
    return new StoreError('payload_too_large', `${BODY} is larger than ${maxBytes} bytes.`);
  }
}

function endedEarly(): StoreError {
  return new StoreError('bad_request', `${BODY} ended early.`);
}

/**
 * Stops reading a connection. What has been read goes on to arrive: a paused request would keep all of its pieces.
 * @returns the function that goes on reading
 */
function pauseReading(socket: Socket): () => void {
  let isPaused = true;
  const pause = (): void => {
    if (isPaused) socket.pause();
  };
  // A request that is read resumes its connection again and again, at the latest in the next tick.
  socket.on('resume', pause);
  process.nextTick(pause);
  return () => {
    isPaused = false;
    socket.off('resume', pause).resume();
  };
}

/** A refusal says what would be accepted: https://www.rfc-editor.org/rfc/rfc9110#section-15.5.16 */
function requireJson(contentType: string | undefined, contentEncoding = '', transferCoding = ''): void {
  const [type, ...parameters] = (contentType ?? '')
    .slice(0, 1_000)
    .split(';')
    .map((part) => part.trim().toLowerCase());
  const charsets = parameters.filter((parameter) => parameter.startsWith('charset='));
  if (type !== 'application/json' || !charsets.every((charset) => /^charset="?utf-?8"?$/.test(charset))) {
    const came = contentType === undefined ? 'nothing' : shorten(contentType);
    const reason = `The Content-Type must be application/json in UTF-8, got ${came}.`;
    throw new StoreError('unsupported_media_type', reason, { headers: { Accept: 'application/json' } });
  }
  // A list may have empty elements: https://www.rfc-editor.org/rfc/rfc9110#section-5.6.1.2
  if (!/^(?:[\s,]|identity)*$/i.test(`${contentEncoding},${transferCoding.replace(/^chunked$/i, '')}`)) {
    const reason = 'A compressed request body is not supported: send it without encoding.';
    throw new StoreError('unsupported_media_type', reason, { headers: { 'Accept-Encoding': 'identity' } });
  }
}

/**
 * Discards the body of a request that does without it, so that it takes no memory while the response waits for its turn.
 * @param onLong - called if it is still arriving, or has arrived in many chunks
 */
export function discardBody(message: IncomingMessage, onLong: () => void): void {
  const { 'content-length': length, 'transfer-encoding': coding } = message.headers;
  if (coding === undefined && !Number(length)) return;
  let pieces = 0;
  const count = (): void => void (pieces += 1);
  message.on('data', count).resume();
  // By then, all that has been read from the connection has arrived.
  setImmediate(() => {
    message.off('data', count);
    if (!message.complete) void drainBody(message);
    if (!message.complete || pieces > MANY_PIECES) onLong();
  });
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
    // The rest of what has been read may complete the request, whose connection then goes on.
    process.nextTick(() => message.complete || pauseReading(message.socket));
  };
  message.on('data', count).resume();
  await once(message, 'close', { signal: AbortSignal.timeout(MAX_DRAIN_MS) }).catch(() => undefined);
}
