import type { IncomingMessage } from 'node:http';

/** How much of a body is read after its request was answered. A client with little left keeps its connection. */
const MAX_BYTES = 262_144;
const MAX_MS = 1_000;

/**
 * Discards the rest of a body whose request was answered already. A client that is still sending when the connection closes
 * may never read its response, so the connection stays open, but only for a short time and few bytes.
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
