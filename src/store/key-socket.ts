import { chmod, rm } from 'node:fs/promises';
import { connect, createServer, type Socket } from 'node:net';
import { relative, resolve } from 'node:path';
import { createInterface } from 'node:readline';
import type { CreatedKey, KeyRecord, KeyStore, NewKey } from '../access/key-store.js';
import type { DeprecatedCaller, DeprecatedCallers } from '../access/deprecated-calls.js';

/** The operations of the `keys` command. */
export interface KeyAdmin {
  readonly keys: Omit<KeyStore, 'findByDigest'>;
  readonly deprecatedCallers: DeprecatedCallers;
}

/** A request of the `keys` command to the server that has the store open. Requests and replies are lines of JSON. */
type KeyRequest =
  | { readonly method: 'create'; readonly newKey: NewKey }
  | { readonly method: 'list' }
  | { readonly method: 'revoke'; readonly id: string }
  | { readonly method: 'deprecated'; readonly since: Date | undefined };

type KeyReply = { readonly result: unknown } | { readonly error: string };

/** The longest socket path, in characters, that every operating system accepts. */
const MAX_SOCKET_PATH = 100;

/** Returns the path of the socket: relative to the working directory if that is shorter. */
function socketPath(directory: string): string {
  const absolute = resolve(directory, 'keys.sock');
  const fromHere = relative(process.cwd(), absolute);
  return fromHere.length < absolute.length ? fromHere : absolute;
}

export interface KeyServer {
  /** Stops listening and closes open connections. */
  close(): Promise<void>;
}

/**
 * Listens for the `keys` command. Only the user who runs the server can connect.
 * @returns the server, or undefined if the directory's path is too long for a socket
 */
export async function serveKeys(directory: string, admin: KeyAdmin): Promise<KeyServer | undefined> {
  const path = socketPath(directory);
  if (path.length > MAX_SOCKET_PATH) return undefined;
  // This process holds the store's lock, so an existing socket file belongs to a dead server.
  await rm(path, { force: true });
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on('error', () => socket.destroy()).once('close', () => sockets.delete(socket));
    void serveConnection(socket, admin);
  });
  const previous = process.umask(0o177);
  try {
    await new Promise<void>((ready, fail) => {
      server.once('error', fail).listen(path, ready);
    });
  } finally {
    process.umask(previous);
  }
  await chmod(path, 0o600);
  return {
    close: () =>
      new Promise((closed) => {
        server.close(() => closed());
        for (const socket of sockets) socket.destroy();
      }),
  };
}

async function serveConnection(socket: Socket, admin: KeyAdmin): Promise<void> {
  try {
    for await (const line of createInterface({ input: socket })) {
      const reply: KeyReply = await handle(JSON.parse(line) as KeyRequest, admin).then(
        (result) => ({ result }),
        (error: unknown) => ({ error: error instanceof Error ? error.message : 'unknown' }),
      );
      socket.write(`${JSON.stringify(reply)}\n`);
    }
  } catch {
    socket.destroy();
  }
}

async function handle(request: KeyRequest, { keys, deprecatedCallers }: KeyAdmin): Promise<unknown> {
  switch (request.method) {
    case 'create': {
      const { expiresAt, ...newKey } = request.newKey;
      return keys.create({ ...newKey, expiresAt: expiresAt && new Date(expiresAt) });
    }
    case 'list':
      return keys.list();
    case 'revoke':
      return (await keys.revoke(request.id)) ?? null;
    case 'deprecated':
      return deprecatedCallers.list(request.since && new Date(request.since));
  }
}

/**
 * Connects to the server that has the embedded store open.
 * @returns undefined if no server listens
 */
export async function connectKeys(directory: string): Promise<(KeyAdmin & { close(): Promise<void> }) | undefined> {
  const socket = connect(socketPath(directory));
  const isConnected = await new Promise<boolean>((done) => {
    socket.once('connect', () => done(true)).once('error', () => done(false));
  });
  if (!isConnected) return undefined;
  const lines = createInterface({ input: socket })[Symbol.asyncIterator]();

  async function send(request: KeyRequest): Promise<unknown> {
    socket.write(`${JSON.stringify(request)}\n`);
    const line = await lines.next();
    if (line.done) throw new Error('the server closed the connection');
    const reply = JSON.parse(line.value) as KeyReply;
    if ('error' in reply) throw new Error(reply.error);
    return reply.result;
  }

  return {
    keys: {
      create: async (newKey) => revive(await send({ method: 'create', newKey })) as CreatedKey,
      list: async () => ((await send({ method: 'list' })) as unknown[]).map(revive),
      revoke: async (id) => {
        const record = await send({ method: 'revoke', id });
        return record === null ? undefined : revive(record);
      },
    },
    deprecatedCallers: {
      list: async (since) => ((await send({ method: 'deprecated', since })) as DeprecatedCaller[]).map(reviveCaller),
    },
    close: async () => {
      socket.destroy();
      await lines.return?.();
    },
  };
}

function revive(sent: unknown): KeyRecord {
  const record = sent as KeyRecord;
  return {
    ...record,
    createdAt: new Date(record.createdAt),
    expiresAt: record.expiresAt && new Date(record.expiresAt),
    revokedAt: record.revokedAt && new Date(record.revokedAt),
  };
}

function reviveCaller(sent: DeprecatedCaller): DeprecatedCaller {
  return {
    ...sent,
    expiresAt: sent.expiresAt && new Date(sent.expiresAt),
    revokedAt: sent.revokedAt && new Date(sent.revokedAt),
    firstAt: new Date(sent.firstAt),
    lastAt: new Date(sent.lastAt),
  };
}
