import type { Socket } from 'node:net';

// PostgreSQL's protocol for other processes of this user, so that they can use the embedded store as if it were a server.
// https://www.postgresql.org/docs/current/protocol-message-formats.html

interface EmbeddedSession {
  /** Runs one message of a client, and returns the messages that answer it. */
  run(message: Uint8Array): Promise<Uint8Array>;
  /** Runs `work` while nothing else uses the database. */
  alone(work: () => Promise<void>): Promise<void>;
}

/** How long a client may keep the database to itself and send nothing, as in a transaction. */
const IDLE_MS = 10_000;
const PROTOCOL = 3;

const TERMINATE = 'X'.charCodeAt(0);
const READY = 'Z'.charCodeAt(0);
const IDLE = 'I'.charCodeAt(0);
/** Ends a COPY FROM STDIN: PGlite would wait for its rows for ever, and block the process. Otherwise it is ignored. */
const COPY_FAIL = toMessage('f', 'the embedded store does not support it\0');
/** Types of the messages with which a client sends the rows. */
const COPY_ROWS = Buffer.from('dcf');

/**
 * Serves one client. The database has a single session, which the client has for itself until its statement or
 * transaction ends. Then everything that it has set is reset.
 */
export async function serveClient(socket: Socket, session: EmbeddedSession, version: string): Promise<void> {
  const messages = readMessages(socket);
  const fail = (reason: string): void => {
    socket.write(toMessage('E', `SFATAL\0CXX000\0M${reason}\0\0`));
    socket.destroy();
  };
  socket.on('timeout', () => fail('the store waited too long for the next message'));
  try {
    // Another version is a request to cancel, or for encryption, which this socket does not need.
    const { value: startup } = await messages.next();
    if (startup?.readUInt16BE(4) !== PROTOCOL) return;
    const settings = { server_version: version, client_encoding: 'UTF8', standard_conforming_strings: 'on' };
    const statuses = Object.entries(settings).map(([name, value]) => toMessage('S', `${name}\0${value}\0`));
    socket.write(Buffer.concat([toMessage('R', '\0\0\0\0'), ...statuses, toMessage('Z', 'I')]));
    for (let next = await messages.next(); !next.done; next = await messages.next()) {
      await session.alone(async () => {
        socket.setTimeout(IDLE_MS);
        try {
          for (; !next.done; next = await messages.next()) {
            if (next.value[0] === TERMINATE) return;
            const answer = await session.run(Buffer.concat([next.value, COPY_FAIL]));
            socket.write(answer);
            if (answer.at(-6) === READY && answer.at(-1) === IDLE) return;
          }
        } finally {
          socket.setTimeout(0);
          // After an error, PostgreSQL ignores everything until a Sync.
          await session.run(toMessage('S', ''));
          await session.run(toMessage('Q', 'ROLLBACK\0'));
          await session.run(toMessage('Q', 'DISCARD ALL\0'));
        }
      });
    }
  } catch (error) {
    if (!socket.destroyed) fail((error as Error).message);
  } finally {
    socket.destroy();
  }
}

/** Reads messages. The first has no type before its length. */
async function* readMessages(socket: Socket): AsyncGenerator<Buffer, void> {
  let rest: Buffer = Buffer.alloc(0);
  let typeBytes = 0;
  for await (const chunk of socket as AsyncIterable<Buffer>) {
    rest = Buffer.concat([rest, chunk]);
    while (rest.length >= 8 || (typeBytes === 1 && rest.length >= 5)) {
      const length = typeBytes + rest.readUInt32BE(typeBytes);
      if (length < typeBytes + 4) return;
      if (rest.length < length) break;
      if (!COPY_ROWS.includes(rest[0] as number)) yield rest.subarray(0, length);
      rest = rest.subarray(length);
      typeBytes = 1;
    }
  }
}

function toMessage(type: string, body: string): Buffer {
  const message = Buffer.from(`${type}\0\0\0\0${body}`);
  message.writeInt32BE(message.length - 1, 1);
  return message;
}
