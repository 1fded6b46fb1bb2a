import { STATUS_CODES, type ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';
import { drainBody } from './body.js';

type ConnectionError = readonly [status: number, code: string, message: string];
const INVALID: ConnectionError = [400, 'invalid_request', 'The request is not valid HTTP.'];
const CONNECTION_ERRORS: Readonly<Record<string, ConnectionError>> = {
  HPE_HEADER_OVERFLOW: [431, 'headers_too_large', 'The request line and headers are too large.'],
  ERR_HTTP_REQUEST_TIMEOUT: [408, 'request_timeout', 'The request took too long to arrive.'],
};

/** How long a rejected connection stays open, so that the client can read why. */
const LINGER_MS = 1_000;

/** A client may send further requests before it has the response (pipelining), up to this many. */
const MAX_UNANSWERED = 100;

export interface ConnectionLimits {
  /** A client that reads nothing for this long is disconnected, up to twice as late. In milliseconds, 15,000 by default. */
  readonly stallMs?: number;
  /**
   * The most bytes of bodies that may wait for clients, over all connections; 64 MiB by default. Beyond that, the client
   * whose response has waited longest is disconnected.
   */
  readonly maxWaitingBytes?: number;
}

/** Bounds what the clients of a server leave unread, and answers what is no valid HTTP. */
export function createConnections({ stallMs = 15_000, maxWaitingBytes = 64 * 1_024 * 1_024 }: ConnectionLimits) {
  /** The responses of each connection that are not complete. */
  const unanswered = new WeakMap<Duplex, Set<ServerResponse>>();
  /** The connections that serve no further requests. */
  const closing = new WeakSet<Duplex>();
  /** The lengths of the bodies that their sockets have not accepted completely, the oldest first. */
  const waiting = new Map<ServerResponse, number>();
  let waitingBytes = 0;

  return {
    /** Adds a response. Returns false if its request is not served. */
    add(socket: Duplex, response: ServerResponse): boolean {
      const responses = unanswered.get(socket) ?? new Set();
      if (responses.size > 0 && closing.has(socket)) return false;
      unanswered.set(socket, responses.add(response));
      response.once('close', () => responses.delete(response));
      // Before version 24, Node tells only the first of several responses that its connection has closed.
      if (responses.size === 2) socket.once('close', () => setImmediate(closeAll, responses));
      if (responses.size <= MAX_UNANSWERED) return true;
      socket.destroy();
      return false;
    },
    /** Answers what is no valid HTTP directly on its socket, because Node provides no response object for it. */
    refuse(error: NodeJS.ErrnoException, socket: Duplex): void {
      if (closing.has(socket)) return;
      closing.add(socket);
      // Earlier requests were valid: send their responses, then close.
      const valid = [...(unanswered.get(socket) ?? [])].filter(({ req }) => req.complete);
      if (valid.length === 0 || error.code === 'ECONNRESET') {
        refuseConnection(error, socket);
        return;
      }
      socket.pause();
      const closeSocket = (): void => {
        if (valid.every(({ closed }) => closed)) socket.resume().end(() => socket.destroy());
      };
      for (const response of valid) response.once('close', closeSocket);
    },
    /** Sends a body and ends the response. Its head has been written. */
    send,
    /** The same for a request that is still arriving. Node closes the connection when the response ends. */
    async sendEarly(response: ServerResponse, body: string | Uint8Array, encoding: BufferEncoding): Promise<void> {
      closing.add(response.req.socket);
      response.flushHeaders();
      response.write(body, encoding);
      await drainBody(response.req);
      if (!response.destroyed) send(response, '', encoding);
    },
  };

  function send(response: ServerResponse, body: string | Uint8Array, encoding: BufferEncoding): void {
    response.end(body, encoding);
    if (response.writableFinished) return;
    // Node restarts this timeout when the socket has accepted some bytes in the meantime.
    response.setTimeout(stallMs);
    // When a response has finished, Node sets the timeout of an idle connection, unless another response follows.
    response.prependOnceListener('finish', () => response.setTimeout(0));
    response.once('close', () => forget(response));
    waiting.set(response, body.length);
    waitingBytes += body.length;
    for (const [oldest] of waiting) {
      if (waitingBytes <= maxWaitingBytes || oldest === response) return;
      forget(oldest);
      oldest.req.socket.destroy();
    }
  }

  function forget(response: ServerResponse): void {
    waitingBytes -= waiting.get(response) ?? 0;
    waiting.delete(response);
  }
}

function closeAll(responses: ReadonlySet<ServerResponse>): void {
  for (const response of [...responses]) {
    response.destroy();
    response.emit('close');
  }
}

function refuseConnection(error: NodeJS.ErrnoException, socket: Duplex): void {
  if (error.code === 'ECONNRESET' || !socket.writable) {
    socket.destroy();
    return;
  }
  const [status, code, message] = CONNECTION_ERRORS[error.code ?? ''] ?? INVALID;
  const body = JSON.stringify({ code, message, status });
  // The client can read the reason. Anything that it still sends is discarded.
  setTimeout(() => socket.destroy(), LINGER_MS).unref();
  socket.resume();
  const head = [
    `HTTP/1.1 ${status} ${STATUS_CODES[status]}`,
    'Content-Type: application/json; charset=utf-8',
    `Content-Length: ${Buffer.byteLength(body)}`,
    'Connection: close',
  ];
  socket.end(`${head.join('\r\n')}\r\n\r\n${body}`);
}
