import { rm } from 'node:fs/promises';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import type { KeyAdmin } from './key-admin.js';
import { connectToSocket, listenOnSocket } from './local-socket.js';

// The `keys` command asks the server that has the store open. Each connection has one request and one reply, in JSON.

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
  const server = createServer({ allowHalfOpen: true }, (socket) => {
    let request = '';
    socket.unref().on('error', () => undefined);
    socket.setEncoding('utf8').on('data', (chunk: string) => (request += chunk));
    socket.on('end', () => void handle(request, admin).then((reply) => socket.end(JSON.stringify(reply))));
  });
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

async function handle(json: string, admin: KeyAdmin): Promise<KeyReply> {
  try {
    const { operation, request } = parse(json) as { operation: keyof KeyAdmin; request: unknown };
    if (!Object.hasOwn(admin, operation)) throw new Error('the server that has the store open has another version');
    return { result: await (admin[operation] as (request: unknown) => Promise<unknown>)(request) };
  } catch (error) {
    return { error: error instanceof Error ? error.message : 'unknown' };
  }
}

/** Parses JSON. Properties that end in `At` or `Until`, `at`, `since`, `day` and `hour` are dates. */
function parse(json: string): unknown {
  return JSON.parse(json, (name, value: unknown) =>
    typeof value === 'string' && /(?:At|Until|^at|^since|^day|^hour)$/.test(name) ? new Date(value) : value,
  );
}

/**
 * Connects to the server that has the embedded store open.
 * @returns undefined if no server listens
 */
export async function connectKeys(directory: string) {
  try {
    (await connectToSocket(directory, SOCKET)).destroy();
  } catch {
    // There may be no such directory.
    return undefined;
  }
  const send = async (operation: string, request: unknown): Promise<unknown> => {
    const socket = await connectToSocket(directory, SOCKET);
    socket.end(JSON.stringify({ operation, request }));
    const answer = await text(socket);
    if (answer === '') throw new Error('the server closed the connection');
    const reply = parse(answer) as KeyReply;
    if ('error' in reply) throw new Error(reply.error);
    return reply.result;
  };
  // Whichever operation is called, the server carries it out: also `then`, so a promise must not resolve to it.
  return { admin: new Proxy({} as KeyAdmin, { get: (_, name) => (request: unknown) => send(String(name), request) }) };
}
