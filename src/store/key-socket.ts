import { chmod, rm } from 'node:fs/promises';
import { connect, createServer, type Socket } from 'node:net';
import { relative, resolve } from 'node:path';
import { createInterface } from 'node:readline';
import type { CreatedKey, KeyRecord, KeyStore, NewKey } from '../access/key-store.js';
import type { DeprecatedCaller, DeprecatedCallers } from './deprecated-calls.js';

/** What the `keys` command works with. */
export interface KeyAdmin {
  readonly keys: Omit<KeyStore, 'findByDigest'>;
  readonly deprecatedCallers: DeprecatedCallers;
}

/** What the `keys` command may ask of the server that has the embedded store open: one JSON line each way. */
type Question =
  | { readonly method: 'create'; readonly newKey: NewKey }
  | { readonly method: 'list' }
  | { readonly method: 'revoke'; readonly id: string }
  | { readonly method: 'deprecated'; readonly since: Date | undefined };

type Answer = { readonly result: unknown } | { readonly error: string };

/** The longest path that a socket can have everywhere. */
const MAX_SOCKET_PATH = 100;

/** The socket of the server that has a store open. */
export function socketPath(directory: string): string {
  const absolute = resolve(directory, 'keys.sock');
  const fromHere = relative(process.cwd(), absolute);
  return fromHere.length < absolute.length ? fromHere : absolute;
}

/** The listening side of the socket. */
export interface KeyServer {
  /** Stops listening and ends the connections that are open. */
  close(): Promise<void>;
}

/**
 * Serves the keys of an embedded store to the `keys` command of the same user.
 * @returns the server, or undefined when the directory's path is too long for a socket
 */
export async function serveKeys(directory: string, admin: KeyAdmin): Promise<KeyServer | undefined> {
  const path = socketPath(directory);
  if (path.length > MAX_SOCKET_PATH) return undefined;
  // The lock says that no living server has it.
  await rm(path, { force: true });
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on('error', () => socket.destroy()).once('close', () => sockets.delete(socket));
    void answerAll(socket, admin);
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

async function answerAll(socket: Socket, admin: KeyAdmin): Promise<void> {
  try {
    for await (const line of createInterface({ input: socket })) {
      const answer: Answer = await ask(JSON.parse(line) as Question, admin).then(
        (result) => ({ result }),
        (error: unknown) => ({ error: error instanceof Error ? error.message : 'unknown' }),
      );
      socket.write(`${JSON.stringify(answer)}\n`);
    }
  } catch {
    socket.destroy();
  }
}

async function ask(question: Question, { keys, deprecatedCallers }: KeyAdmin): Promise<unknown> {
  switch (question.method) {
    case 'create': {
      const { expiresAt, ...newKey } = question.newKey;
      return keys.create({ ...newKey, expiresAt: expiresAt && new Date(expiresAt) });
    }
    case 'list':
      return keys.list();
    case 'revoke':
      return (await keys.revoke(question.id)) ?? null;
    case 'deprecated':
      return deprecatedCallers.list(question.since && new Date(question.since));
  }
}

/**
 * Asks the server that has an embedded store open.
 * @returns undefined when no server listens
 */
export async function connectKeys(directory: string): Promise<(KeyAdmin & { close(): Promise<void> }) | undefined> {
  const socket = connect(socketPath(directory));
  const isConnected = await new Promise<boolean>((done) => {
    socket.once('connect', () => done(true)).once('error', () => done(false));
  });
  if (!isConnected) return undefined;
  const lines = createInterface({ input: socket })[Symbol.asyncIterator]();

  async function send(question: Question): Promise<unknown> {
    socket.write(`${JSON.stringify(question)}\n`);
    const line = await lines.next();
    if (line.done) throw new Error('the server closed the connection');
    const answer = JSON.parse(line.value) as Answer;
    if ('error' in answer) throw new Error(answer.error);
    return answer.result;
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
