import type { ServerResponse } from 'node:http';

/** A larger body goes to the socket in pieces of this many bytes, and each piece that the socket takes is progress. */
const PIECE_BYTES = 65_536;

export interface BodySenderOptions {
  /** A client that takes nothing for this long is disconnected, in milliseconds. */
  readonly stallMs: number;
  /** The most bytes that may wait for clients, over all connections. */
  readonly maxWaitingBytes: number;
}

/** Sends response bodies, and disconnects the clients that do not read them. */
export interface BodySender {
  /** Sends a body and ends the response. Its head has been written. */
  send(response: ServerResponse, body: string | Uint8Array, encoding: BufferEncoding): void;
  /** Stops the check for clients that do not read. */
  close(): void;
}

/** A response whose body the socket has not taken completely. */
interface Waiting {
  readonly response: ServerResponse;
  bytesLeft: number;
  progressAt: number;
}

/**
 * Creates the sender. When more than `maxWaitingBytes` wait, it disconnects the clients that have made no progress for the
 * longest time: clients that never read go first, however many they are, and clients that read stay.
 */
export function createBodySender({ stallMs, maxWaitingBytes }: BodySenderOptions): BodySender {
  /** In the order of their last progress, the oldest first. */
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

  /** Notes progress: the response moves to the end of the line. */
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
      // The response to a pipelined request waits for the one before it, and not for the client.
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
