import { maxHeaderSize } from 'node:http';
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

/** Whether the request line alone exceeds the size of the headers. Node tells only of both. */
function hasLongUri({ code, rawPacket }: NodeJS.ErrnoException & { readonly rawPacket?: Buffer }): boolean {
  if (code !== 'HPE_HEADER_OVERFLOW' || !rawPacket) return false;
  const start = rawPacket.toString('latin1', 0, maxHeaderSize);
  return /^[A-Z]+ \//.test(start) && !start.includes('\n');
}

/** How long a rejected connection stays open, so that the client can read why. */
const LINGER_MS = 1_000;

/** Answers an invalid HTTP request directly on its socket, because Node provides no response object for it. */
export function refuseConnection(error: NodeJS.ErrnoException, socket: Duplex): void {
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
