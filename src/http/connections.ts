import {
  maxHeaderSize,
  STATUS_CODES,
  type IncomingMessage,
  type RequestListener,
  type ServerResponse,
} from 'node:http';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';

type ConnectionError = readonly [status: number, code: string, message: string];
const INVALID: ConnectionError = [400, 'invalid_request', 'The request is not valid HTTP.'];
const CONNECTION_ERRORS: Readonly<Record<string, ConnectionError>> = {
  HPE_HEADER_OVERFLOW: [431, 'headers_too_large', 'The request headers are too large.'],
  URI_TOO_LONG: [414, 'uri_too_long', 'The URL is too long: send a GraphQL query by POST.'],
  ERR_HTTP_REQUEST_TIMEOUT: [408, 'request_timeout', 'The request took too long to arrive.'],
};

/** Whether the request line alone exceeds the size of the headers. Node reports the two as one error. */
function hasLongUri({ code, rawPacket }: NodeJS.ErrnoException & { readonly rawPacket?: Buffer }): boolean {
  if (code !== 'HPE_HEADER_OVERFLOW' || !rawPacket) return false;
  const start = rawPacket.toString('latin1', 0, maxHeaderSize);
  return /^[A-Z]+ \//.test(start) && !start.includes('\n');
}

/** How long a rejected connection stays open, so that the client can read why. */
const LINGER_MS = 1_000;

/** A connection with more requests in progress is closed: Node goes on reading, and each takes some kilobytes. */
const MAX_PIPELINED = 100;

interface Connection {
  readonly responses: ServerResponse[];
  /** Whether a response has announced that it is the last. */
  isEnding: boolean;
  /** Whether something was received that is no valid HTTP. */
  isRefused: boolean;
}

export interface ConnectionLimits {
  /** A client that reads nothing for this long is disconnected, up to twice as late. In milliseconds, 15,000 by default. */
  readonly stallMs?: number;
  /**
   * The most bytes of bodies that may wait for clients, over all connections; 64 MiB by default. Beyond that, the client
   * whose response has waited longest is disconnected.
   */
  readonly maxWaitingBytes?: number;
}

/**
 * Keeps the connections of a server, and their unfinished responses. A client may send its next request before it has
 * the last response (pipelining). Such requests are served one after the other. Before version 24, Node tells only the
 * first of the responses when the connection closes. The others are told here.
 */
export function createConnections({ stallMs = 15_000, maxWaitingBytes = 64 * 1_024 * 1_024 }: ConnectionLimits) {
  /**
   * The connections by their sockets, with the responses that are not complete. They are seldom more than one, and for
   * each that comes and goes, V8 would allocate a new table of a Set in its old generation.
   */
  const connections = new WeakMap<Duplex, Connection>();
  /** The lengths of the bodies that their sockets have not accepted completely, the oldest first. */
  const waiting = new Map<ServerResponse, number>();
  let waitingBytes = 0;

  return {
    /** Serves a request when the earlier responses of its connection are complete, unless one of them was the last. */
    serve(request: IncomingMessage, response: ServerResponse, start: RequestListener): void {
      const { socket } = request;
      const connection = connections.get(socket) ?? open(socket);
      const { responses } = connection;
      const previous = responses.at(-1);
      responses.push(response);
      response.on('close', () => responses.splice(responses.indexOf(response), 1));
      const startUnlessOver = (): void => {
        if (!connection.isEnding && !socket.destroyed) start(request, response);
      };
      if (!previous) startUnlessOver();
      else if (responses.length > MAX_PIPELINED) socket.destroy();
      else previous.once('close', startUnlessOver);
    },
    /** A response announces that it is the last: https://www.rfc-editor.org/rfc/rfc9112#section-9.6 */
    end({ socket }: IncomingMessage): void {
      (connections.get(socket) as Connection).isEnding = true;
    },
    /** Answers what is no valid HTTP request directly on its socket, because Node provides no response object for it. */
    refuse(error: NodeJS.ErrnoException, socket: Duplex): void {
      const connection = connections.get(socket);
      if (connection?.isRefused) return;
      if (connection) connection.isRefused = true;
      // What cannot be read follows requests that can: their responses go out, and nothing else.
      const owed = (connection?.responses ?? []).filter(({ req, headersSent }) => req.complete || headersSent);
      if (owed.length === 0 || error.code === 'ECONNRESET') {
        refuseConnection(error, socket);
        return;
      }
      // Bytes that still arrive would restart the timeout for clients that do not read.
      socket.pause();
      const closeSocket = (): void => {
        if (owed.every(({ closed }) => closed)) socket.resume().end(() => socket.destroy());
      };
      for (const response of owed) response.once('close', closeSocket);
    },
    /** Sends a body and ends the response. Its head has been written. */
    send(response: ServerResponse, body: string | Uint8Array, encoding: BufferEncoding): void {
      response.end(body, encoding);
      if (response.writableFinished) return;
      // Node restarts this timeout when the socket has accepted some bytes in the meantime. It begins when the response
      // to an earlier pipelined request is complete.
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
    },
  };

  function forget(response: ServerResponse): void {
    waitingBytes -= waiting.get(response) ?? 0;
    waiting.delete(response);
  }

  function open(socket: Socket) {
    const connection: Connection = { responses: [], isEnding: false, isRefused: false };
    connections.set(socket, connection);
    socket.once('close', () => setImmediate(closeAll, connection.responses));
    return connection;
  }
}

function closeAll(responses: readonly ServerResponse[]): void {
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
  const [status, code, message] = CONNECTION_ERRORS[hasLongUri(error) ? 'URI_TOO_LONG' : (error.code ?? '')] ?? INVALID;
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
