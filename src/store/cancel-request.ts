import { connect } from 'node:net';
import type pg from 'pg';

const CANCEL_REQUEST = 80_877_102;
const ANSWER_MS = 1_000;

/**
 * Asks the server to end the statement of a client, on a connection of its own. That also ends a commit that waits for
 * a standby, which statement_timeout does not.
 * https://www.postgresql.org/docs/current/protocol-flow.html#PROTOCOL-FLOW-CANCELING-REQUESTS
 * @returns whether the server has processed the request
 */
export function cancelStatement(client: pg.ClientBase): Promise<boolean> {
  // The type of a client lacks these properties.
  const { host, port, processID, secretKey } = client as unknown as Record<'port' | 'processID' | 'secretKey', number> &
    Record<'host', string>;
  const message = Buffer.alloc(16);
  [message.length, CANCEL_REQUEST, processID, secretKey].forEach((value, i) => message.writeInt32BE(value, 4 * i));
  return new Promise((resolve) => {
    const socket = connect(host.startsWith('/') ? { path: `${host}/.s.PGSQL.${port}` } : { host, port });
    let isAnswered = false;
    socket.setTimeout(ANSWER_MS, () => socket.destroy());
    // The server sends nothing, and closes the connection once it has processed the request.
    socket.on('error', () => undefined).on('end', () => (isAnswered = true));
    socket.once('close', () => resolve(isAnswered)).resume();
    socket.write(message);
  });
}
