import type { ServerResponse } from 'node:http';

/** A larger body is written in pieces of this many bytes. Each piece that the socket accepts counts as progress. */
const PIECE_BYTES = 65_536;

export interface BodySenderOptions {
  /** A client that reads nothing for this long is disconnected, in milliseconds. */
  readonly stallMs: number;
  /** The most bytes that may wait for clients, over all connections. */
  readonly maxWaitingBytes: number;
}

/** Sends response bodies, and disconnects the clients that do not read them. */
export interface BodySender {
  /** Sends a body and ends the response. Its head has been written. */
  send(response: ServerResponse, body: string | Uint8Array, encoding: BufferEncoding): void;
  /** Stops the timer that looks for clients that do not read. */
  close(): void;
}

/** A response whose body the socket has not accepted completely. */
interface Waiting {
  readonly response: ServerResponse;
  bytesLeft: number;
  progressAt: number;
}

/**
 * Creates the sender. While more than `maxWaitingBytes` wait, it disconnects the client whose last progress was the
 * longest ago. Any number of clients that never read are therefore disconnected before a client that reads.
 */
export function createBodySender({ stallMs, maxWaitingBytes }: BodySenderOptions): BodySender {
  /** Ordered by last progress, the oldest first. */
  const waiting = new Set<Waiting>();
  let waitingBytes = 0;
  const timer = setInterval(disconnectStalled, Math.min(1_000, stallMs / 4)).unref();

  return {
    send(response, body, encoding) {
      if (body.length > PIECE_BYTES) {
        sendInPieces(response, typeof body === 'string' ? Buffer.from(body, encoding) : body);
        return;
      }
      response.end(body, encoding);
      if (!response.writableFinished) track(response, body.length);
    },
    close: () => clearInterval(timer),
  };

  function sendInPieces(response: ServerResponse, bytes: Uint8Array): void {
    const one = track(response, bytes.length);
    let sent = 0;
    const sendPiece = (error?: Error | null): void => {
      if (error || response.destroyed) return;
      setBytesLeft(one, bytes.length - sent);
      const piece = bytes.subarray(sent, sent + PIECE_BYTES);
      sent += piece.length;
      if (sent === bytes.length) response.end(piece);
      else response.write(piece, sendPiece);
    };
    sendPiece();
  }

  function track(response: ServerResponse, bytesLeft: number): Waiting {
    const one: Waiting = { response, bytesLeft: 0, progressAt: 0 };
    setBytesLeft(one, bytesLeft);
    response.once('close', () => {
      waiting.delete(one);
      waitingBytes -= one.bytesLeft;
    });
    while (waitingBytes > maxWaitingBytes && waiting.size > 1) disconnect(waiting.values().next().value as Waiting);
    return one;
  }

  /** Records progress, and moves the response to the end of the order. */
  function setBytesLeft(one: Waiting, bytesLeft: number): void {
    waitingBytes += bytesLeft - one.bytesLeft;
    one.bytesLeft = bytesLeft;
    one.progressAt = performance.now();
    waiting.delete(one);
    waiting.add(one);
  }

  function disconnectStalled(): void {
    const stalledSince = performance.now() - stallMs;
    for (const one of waiting) {
      if (one.progressAt > stalledSince) return;
      // A response without a socket waits for the response to an earlier pipelined request, not for the client.
      if (one.response.socket) disconnect(one);
    }
  }

  function disconnect(one: Waiting): void {
    waiting.delete(one);
    waitingBytes -= one.bytesLeft;
    one.bytesLeft = 0;
    one.response.req.socket.destroy();
  }
}
