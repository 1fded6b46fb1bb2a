import { connect, type Socket } from 'node:net';

/** What became of a connection. */
export interface RawAnswer {
  /** The status of the first answer; undefined when none came. */
  readonly status: number | undefined;
  readonly text: string;
  /** Bytes that the client could hand over, those in the buffers between included. */
  readonly written: number;
  /** Milliseconds until the answer began, and until the connection ended. */
  readonly answeredAfter: number;
  readonly endedAfter: number;
}

/**
 * Writes bytes to a server as they are, and waits until it has closed the connection.
 * @param send - writes; `isOpen` turns false when the connection has ended
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

/** Writes a chunk again and again, as fast as it is taken. */
export function flood(socket: Socket, isOpen: () => boolean, chunk: Buffer): void {
  if (!isOpen()) return;
  while (isOpen() && socket.write(chunk));
  socket.once('drain', () => flood(socket, isOpen, chunk));
}

/** Writes a little every half second, for ever. */
export function trickle(socket: Socket, isOpen: () => boolean, text: string): void {
  const timer = setInterval(() => {
    if (isOpen()) socket.write(text);
    else clearInterval(timer);
  }, 500);
}
