import { rm } from 'node:fs/promises';
import { createServer, type Socket } from 'node:net';
import { join } from 'node:path';
import type { KeyAdmin } from './key-admin.js';
import { toLines } from './lines.js';
import { connectToSocket, listenOnSocket } from './local-socket.js';

// Requests of the `keys` command to the server that has the store open, and its replies, are lines of JSON.

type KeyReply = { readonly result: unknown } | { readonly error: string };

const SOCKET = 'keys.sock';

/**
 * Listens for the `keys` command. Only the user who runs the server can connect.
 * @returns a function that stops listening
 */
export async function serveKeys(directory: string, admin: KeyAdmin): Promise<() => Promise<void>> {
  const file = join(directory, SOCKET);
  // This process holds the store's lock, so an existing socket file belongs to a dead server.
  await rm(file, { force: true });
  const server = createServer((socket) => void serveConnection(socket.unref(), admin));
  const previous = process.umask(0o177);
  try {
    await listenOnSocket(server, directory, SOCKET);
  } finally {
    process.umask(previous);
  }
  return async () => {
    server.close();
    await rm(file, { force: true });
  };
}

async function serveConnection(socket: Socket, admin: KeyAdmin): Promise<void> {
  socket.on('error', () => undefined);
  try {
    for await (const line of toLines(socket.setEncoding('utf8') as AsyncIterable<string>)) {
      const reply: KeyReply = await handle(line, admin).then(
        (result) => ({ result }),
        (error: unknown) => ({ error: error instanceof Error ? error.message : 'unknown' }),
      );
      socket.write(`${JSON.stringify(reply)}\n`);
    }
  } catch {
    // The connection is broken, and the loop has destroyed the socket.
  }
}

async function handle(line: string, admin: KeyAdmin): Promise<unknown> {
  const { operation, request } = parse(line) as { operation: keyof KeyAdmin; request: unknown };
  if (!Object.hasOwn(admin, operation)) throw new Error('the server that has the store open has another version');
  return (admin[operation] as (request: unknown) => Promise<unknown>)(request);
}

/** Parses a line. Properties that end in `At` or `Until`, `at`, `since`, `day` and `hour` are dates. */
function parse(line: string): unknown {
  return JSON.parse(line, (name, value: unknown) =>
    typeof value === 'string' && /(?:At|Until|^at|^since|^day|^hour)$/.test(name) ? new Date(value) : value,
  );
}

/**
 * Connects to the server that has the embedded store open.
 * @returns undefined if no server listens
 */
export async function connectKeys(directory: string) {
  // There may be no such directory.
  const socket = await connectToSocket(directory, SOCKET).catch(() => undefined);
  if (!socket) return undefined;
  const lines = toLines(socket.setEncoding('utf8') as AsyncIterable<string>);

  const send = async (operation: string, request: unknown): Promise<unknown> => {
    socket.write(`${JSON.stringify({ operation, request })}\n`);
    const line = await lines.next();
    if (line.done) throw new Error('the server closed the connection');
    const reply = parse(line.value) as KeyReply;
    if ('error' in reply) throw new Error(reply.error);
    return reply.result;
  };
  // Whichever operation is called, the server carries it out.
  const admin = new Proxy({} as KeyAdmin, { get: (_, name) => (request: unknown) => send(String(name), request) });
  return { admin, close: () => void socket.destroy() };
}
