import { connect, type Socket } from 'node:net';

/** The outcome of a connection. */
export interface RawAnswer {
  /** The status of the first response; undefined without one. */
  readonly status: number | undefined;
  readonly text: string;
  /** Bytes that the client wrote, including bytes that are still in socket buffers. */
  readonly written: number;
  /** Milliseconds until the response began and until the connection ended. */
  readonly answeredAfter: number;
  readonly endedAfter: number;
}

/**
 * Sends raw bytes to a server and waits until the connection is closed.
 * @param send - writes to the socket; `isOpen` returns false once the connection is closed
 */
export function sendRaw(url: string, send: (socket: Socket, isOpen: () => boolean) => void): Promise<RawAnswer> {
  const { hostname, port } = new URL(url);
  return new Promise((resolve) => {
    const startedAt = performance.now();
    let answeredAfter = Number.POSITIVE_INFINITY;
    let text = '';
    let open = true;
    const socket = connect({ host: hostname, port: Number(port) });
    socket.on('connect', () => send(socket, () => open));
    socket.on('data', (chunk) => {
      answeredAfter = Math.min(answeredAfter, performance.now() - startedAt);
      text += chunk.toString('latin1');
    });
    socket.on('error', () => undefined);
    socket.on('close', () => {
      open = false;
      const status = /^HTTP\/1\.1 (\d{3}) /.exec(text)?.[1];
      resolve({
        status: status === undefined ? undefined : Number(status),
        text,
        written: socket.bytesWritten,
        answeredAfter,
        endedAfter: performance.now() - startedAt,
      });
    });
  });
}

/** Writes a chunk repeatedly, as fast as the socket accepts it. */
export function flood(socket: Socket, isOpen: () => boolean, chunk: Buffer): void {
  if (!isOpen()) return;
  while (isOpen() && socket.write(chunk));
  socket.once('drain', () => flood(socket, isOpen, chunk));
}

/** Writes a text every half second until the connection is closed. */
export function trickle(socket: Socket, isOpen: () => boolean, text: string): void {
  const timer = setInterval(() => {
    if (isOpen()) socket.write(text);
    else clearInterval(timer);
  }, 500);
}
