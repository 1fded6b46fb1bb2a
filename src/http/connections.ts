import { maxHeaderSize, STATUS_CODES, type IncomingMessage, type ServerResponse } from 'node:http';
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

/**
 * Keeps the connections of a server, and their unfinished responses. A client may send its next request before it has
 * the last response (pipelining). Before version 24, Node tells only the first of the responses when the connection
 * closes. The others are told here.
 */
export function createConnections() {
  /**
   * The connections by their sockets, with the responses that are not complete. They are seldom more than one, and for
   * each that comes and goes, V8 would allocate a new table of a Set in its old generation.
   */
  const connections = new WeakMap<Duplex, { readonly responses: ServerResponse[]; isRefused: boolean }>();

  return {
    track({ socket }: IncomingMessage, response: ServerResponse): void {
      const { responses } = connections.get(socket) ?? open(socket);
      responses.push(response);
      response.on('close', () => responses.splice(responses.indexOf(response), 1));
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
  };

  function open(socket: Socket) {
    const connection = { responses: new Array<ServerResponse>(), isRefused: false };
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
