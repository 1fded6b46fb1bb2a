import type { IncomingMessage } from 'node:http';

/** What is still read of a body after its request has been answered: some have little left, and keep their connection. */
const MAX_BYTES = 262_144;
const MAX_MS = 1_000;

/**
 * Throws away what still arrives of a request that has been answered. A client that is sending when the connection closes may
 * never read its answer, so the connection is not cut at once; but not much is read either, nor for long.
 */
export function discardRest(request: IncomingMessage): void {
  const { socket } = request;
  const timer = setTimeout(cut, MAX_MS).unref();
  let left = MAX_BYTES;
  request.on('data', ({ length }: Buffer) => {
    left -= length;
    if (left < 0) cut();
  });
  request.once('close', () => {
    clearTimeout(timer);
  });

  function cut(): void {
    socket.destroy();
  }
}
