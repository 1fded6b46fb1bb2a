import { maxHeaderSize, type IncomingMessage, type ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';

const CONNECTION_ERRORS: Readonly<Record<string, readonly [status: string, code: string, message: string]>> = {
  HPE_HEADER_OVERFLOW: [
    '431 Request Header Fields Too Large',
    'headers_too_large',
    'The request headers are too large.',
  ],
  URI_TOO_LONG: ['414 URI Too Long', 'uri_too_long', 'The URL is too long: send the request by POST.'],
  ERR_HTTP_REQUEST_TIMEOUT: ['408 Request Timeout', 'request_timeout', 'The request took too long to arrive.'],
};

/** Whether the request line alone exceeds the size of the headers. Node reports the two as one error. */
function hasLongUri({ code, rawPacket }: NodeJS.ErrnoException & { readonly rawPacket?: Buffer }): boolean {
  if (code !== 'HPE_HEADER_OVERFLOW' || !rawPacket) return false;
  const start = rawPacket.toString('latin1', 0, maxHeaderSize);
  return /^[A-Z]+ \//.test(start) && !start.includes('\n');
}

/** How long a rejected connection stays open, so that the client can read why. */
const LINGER_MS = 1_000;

interface Connection {
  readonly responses: Set<ServerResponse>;
  isRefused: boolean;
}

/**
 * Keeps the connections of a server, and their unfinished responses. A client may send its next request before it has
 * the last response (pipelining). Before version 24, Node tells only the first of the responses when the connection
 * closes. The others are told here.
 */
export function createConnections() {
  const connections = new WeakMap<Duplex, Connection>();

  return {
    track({ socket }: IncomingMessage, response: ServerResponse): void {
      const { responses } = connections.get(socket) ?? open(socket);
      responses.add(response);
      response.on('close', () => responses.delete(response));
    },
    /** Answers what is no valid HTTP request directly on its socket, because Node provides no response object for it. */
    refuse(error: NodeJS.ErrnoException, socket: Duplex): void {
      const connection = connections.get(socket);
      if (connection?.isRefused) return;
      if (connection) connection.isRefused = true;
      // What cannot be read follows requests that can: their responses go out, and nothing else.
      const owed = [...(connection?.responses ?? [])].filter(({ req, headersSent }) => req.complete || headersSent);
      if (owed.length === 0 || error.code === 'ECONNRESET') {
        refuseConnection(error, socket);
        return;
      }
      // Bytes that still arrive would restart the timeout for clients that do not read.
      socket.pause();
      for (const response of owed) response.once('close', () => closeAfter(owed, socket));
    },
  };

  function open(socket: Socket): Connection {
    const connection = { responses: new Set<ServerResponse>(), isRefused: false };
    connections.set(socket, connection);
    socket.once('close', () => setImmediate(closeAll, connection.responses));
    return connection;
  }
}

/** Closes the responses that Node has not closed. */
function closeAll(responses: ReadonlySet<ServerResponse>): void {
  for (const response of responses) {
    response.destroy();
    response.emit('close');
  }
}

function closeAfter(responses: readonly ServerResponse[], socket: Duplex): void {
  if (responses.every(({ closed }) => closed)) socket.resume().end(() => socket.destroy());
}

function refuseConnection(error: NodeJS.ErrnoException, socket: Duplex): void {
  if (error.code === 'ECONNRESET' || !socket.writable) {
    socket.destroy();
    return;
  }
  const [status, code, message] = CONNECTION_ERRORS[hasLongUri(error) ? 'URI_TOO_LONG' : (error.code ?? '')] ?? [
    '400 Bad Request',
    'invalid_request',
    'The request is not valid HTTP.',
  ];
  const body = JSON.stringify({ code, message, status: Number.parseInt(status, 10) });
  // The client can read the reason. Anything that it still sends is discarded.
  setTimeout(() => socket.destroy(), LINGER_MS).unref();
  socket.resume();
  socket.end(
    `HTTP/1.1 ${status}\r\nContent-Type: application/json; charset=utf-8\r\nContent-Length: ${Buffer.byteLength(body)}\r\nConnection: close\r\n\r\n${body}`,
  );
}
