import type { ServerResponse } from 'node:http';

/**
 * Creates the function that sends response bodies and disconnects the clients that read nothing for `stallMs`. While
 * more than `maxWaitingBytes` wait, over all connections, it disconnects the client whose response has waited longest.
 */
export function createBodySender(stallMs: number, maxWaitingBytes: number) {
  /** The lengths of the bodies that their sockets have not accepted completely, the oldest first. */
  const waiting = new Map<ServerResponse, number>();
  let waitingBytes = 0;

  /** Sends a body and ends the response. Its head has been written. */
  return (response: ServerResponse, body: string | Uint8Array, encoding: BufferEncoding): void => {
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
  };

  function forget(response: ServerResponse): void {
    waitingBytes -= waiting.get(response) ?? 0;
    waiting.delete(response);
  }
}
