import type { IncomingMessage } from 'node:http';

/** The most that is read of a body after its request was answered. A client with less left keeps its connection. */
const MAX_BYTES = 262_144;
const MAX_MS = 1_000;

/**
 * Discards the rest of a body after its request was answered. A client that is still sending when the connection closes
 * may never read its response. The connection therefore stays open, but only for a short time and a few bytes.
 */
export function drainBody(request: IncomingMessage): void {
  const { socket } = request;
  const timer = setTimeout(disconnect, MAX_MS).unref();
  let left = MAX_BYTES;
  request.on('data', ({ length }: Buffer) => {
    left -= length;
    if (left < 0) disconnect();
  });
  request.once('close', () => {
    clearTimeout(timer);
  });

  function disconnect(): void {
    socket.destroy();
  }
}
