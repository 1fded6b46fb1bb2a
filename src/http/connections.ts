import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { STATUS_CODES, type ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';
import { getHeapStatistics } from 'node:v8';
import { StoreError } from '../errors.js';
import type { Log } from '../observability/log.js';
import { drainBody } from './body.js';
import { JSON_TYPE, toErrorReply } from './reply.js';

const INVALID = new StoreError('invalid_request', 'The request is not valid HTTP.');
/** By the codes of Node. */
const REFUSALS: Readonly<Record<string, StoreError>> = {
  HPE_HEADER_OVERFLOW: new StoreError('headers_too_large', 'The request line and headers are too large.'),
  ERR_HTTP_REQUEST_TIMEOUT: new StoreError('request_timeout', 'The request took too long to arrive.'),
};

/** How long a refused connection stays open, so that the client can read why. */
const LINGER_MS = 1_000;

/** Each costs a file descriptor and memory: at worst two heads, which take about 80 kB of the heap. */
const MAX_CONNECTIONS = 10_000;
const HEAP_BYTES_OF_CONNECTION = 262_144;
const WARN_EVERY_MS = 1_000;

/** A client may send further requests before it has the response (pipelining), up to this many. */
const MAX_UNANSWERED = 20;
/** Beyond this many unanswered requests of all connections, no client may do that, because each takes memory. */
const MANY_IN_FLIGHT = 500;

/**
 * The most bytes of bodies that may wait for clients, over all connections. Beyond that, the client whose response has
 * waited longest is disconnected.
 */
const MAX_WAITING_BYTES = 64 * 1_024 * 1_024;

interface Connection {
  readonly responses: ServerResponse[];
  /** Whether it serves no further requests. */
  isEnding: boolean;
}

/**
 * Limits the connections and what clients leave unread, and answers requests that are not valid HTTP.
 * @param stallMs - a client that reads nothing for this long is disconnected, up to twice as late, in milliseconds
 */
export function createConnections(log: Log, stallMs = 15_000) {
  const maxConnections = Math.min(MAX_CONNECTIONS, getHeapStatistics().heap_size_limit / HEAP_BYTES_OF_CONNECTION);
  /** The open ones. The first has had no response for the longest time. */
  const connections = new Map<Duplex, Connection>();
  let warnedAt = -Infinity;
  /** The lengths of the bodies that their sockets have not accepted completely, the oldest first. */
  const waiting = new Map<ServerResponse, number>();
  let waitingBytes = 0;
  let inFlight = 0;

  return {
    /** The requests whose responses are not complete. */
    inFlight: (): number => inFlight,
    open(socket: Duplex): void {
      const connection: Connection = { responses: [], isEnding: false };
      connections.set(socket, connection);
      socket.once('close', () => {
        connections.delete(socket);
        // Before version 24, Node tells only the first of several responses that its connection has closed.
        setImmediate(closeAll, connection.responses);
      });
      if (connections.size > maxConnections) closeOldest();
    },
    /** Adds a request. Returns false if it is not served. */
    add(socket: Duplex, response: ServerResponse): boolean {
      const connection = connections.get(socket);
      if (!connection || connection.isEnding) return false;
      const { responses } = connection;
      responses.push(response);
      inFlight += 1;
      response.once('close', () => {
        responses.splice(responses.indexOf(response), 1);
        inFlight -= 1;
        forget(response);
        if (connections.delete(socket)) connections.set(socket, connection);
      });
      if (responses.length <= (inFlight > MANY_IN_FLIGHT ? 1 : MAX_UNANSWERED)) return true;
      socket.destroy();
      return false;
    },
    /** Answers what is not valid HTTP. Node has no response object for it. */
    async refuse({ code = '' }: NodeJS.ErrnoException, socket: Duplex): Promise<void> {
      const connection = connections.get(socket);
      if (!connection || connection.isEnding) return;
      connection.isEnding = true;
      socket.pause();
      // Earlier requests were valid: their responses go first.
      const earlier = connection.responses.filter(({ req }) => req.complete);
      await Promise.all(earlier.map((response) => once(response, 'close')));
      if (code === 'ECONNRESET' || !socket.writable) socket.destroy();
      else sendRefusal(socket, REFUSALS[code] ?? INVALID);
    },
    /** Sends the body of a response, after its head. */
    send(response: ServerResponse, body: string | Uint8Array, bytes: number): void {
      response.end(body, toEncoding(body, bytes));
      watch(response, bytes);
    },
    /** The same for a request that is still arriving. Node closes the connection when the response ends. */
    async sendEarly(response: ServerResponse, body: string | Uint8Array, bytes: number): Promise<void> {
      const connection = connections.get(response.req.socket);
      if (connection) connection.isEnding = true;
      response.flushHeaders();
      response.write(body, toEncoding(body, bytes));
      watch(response, bytes);
      await drainBody(response.req);
      if (!response.destroyed) response.end();
    },
  };

  /** Closes the connection that has had no response for the longest time, and waits for none. */
  function closeOldest(): void {
    for (const [socket, { responses }] of connections) {
      if (responses.some(({ req }) => req.complete)) continue;
      connections.delete(socket);
      socket.destroy();
      break;
    }
    if (performance.now() - warnedAt < WARN_EVERY_MS) return;
    warnedAt = performance.now();
    log.warn(`the oldest idle connections are closed, because more than ${Math.floor(maxConnections)} are open`);
  }

  /** Disconnects the client of a response that stays unread. */
  function watch(response: ServerResponse, bytes: number): void {
    if (response.writableLength === 0) return;
    // Node restarts this timeout when the socket has accepted some bytes in the meantime.
    response.setTimeout(stallMs);
    // When a response has finished, Node sets the timeout of an idle connection, unless another response follows.
    response.prependOnceListener('finish', () => response.setTimeout(0));
    waiting.set(response, bytes);
    waitingBytes += bytes;
    for (const [oldest] of waiting) {
      if (waitingBytes <= MAX_WAITING_BYTES || oldest === response) return;
      forget(oldest);
      oldest.req.socket.destroy();
    }
  }

  function forget(response: ServerResponse): void {
    waitingBytes -= waiting.get(response) ?? 0;
    waiting.delete(response);
  }
}

/** ASCII is the same in both encodings, and Node writes Latin-1 without conversion. */
function toEncoding(body: string | Uint8Array, bytes: number): BufferEncoding {
  return bytes === body.length ? 'latin1' : 'utf8';
}

function closeAll(responses: readonly ServerResponse[]): void {
  for (const response of [...responses]) {
    response.destroy();
    response.emit('close');
  }
}

/** Sends an Error body. Anything that the client still sends is discarded. */
function sendRefusal(socket: Duplex, error: StoreError): void {
  const { status, body } = toErrorReply(error);
  const head =
    `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\nContent-Type: ${JSON_TYPE}\r\n` +
    `X-Request-Id: ${randomUUID()}\r\nX-Content-Type-Options: nosniff\r\n` +
    `Content-Length: ${body.length}\r\nConnection: close\r\n\r\n`;
  socket.resume().end(head + String(body));
  setTimeout(() => socket.destroy(), LINGER_MS).unref();
}
