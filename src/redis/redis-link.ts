import { isIP } from 'node:net';
import type { Redis, RedisOptions } from 'ioredis';
import type { Log } from '../observability/log.js';
import type { SharingFailure, SharingMetrics } from '../observability/limiter-metrics.js';

/** Redis is unavailable, or its reply was late or corrupt. The command may or may not have run. */
export class RedisAwayError extends Error {
  override readonly name = 'RedisAwayError';
}

/** A connection to a Redis server that may be unavailable at any time. */
export interface RedisLink {
  /** Whether there is a working connection. */
  readonly isUp: boolean;
  /**
   * Sends commands once. Nothing is queued or retried.
   * @param send - sends the commands
   * @param read - parses the reply; throws if the reply is corrupt, and the connection is then closed
   * @throws RedisAwayError by the deadline at the latest
   */
  ask<T>(send: (client: Redis) => Promise<unknown>, read: (reply: unknown) => T): Promise<T>;
  /** Adds a listener that is called whenever the link connects, and at once if it is connected now. */
  onUp(listener: () => void): void;
  close(): void;
}

export interface RedisLinkOptions {
  /** `redis://` or `rediss://`, optionally with a user, a password and a database number. */
  readonly url: string;
  readonly log: Log;
  readonly metrics: SharingMetrics;
  /** How long a reply may take, in milliseconds. */
  readonly deadlineMs?: number;
  /** Time between attempts to connect, in milliseconds. */
  readonly retryMs?: number;
}

/** How long an attempt to connect may take, including the check that Redis can write and read. */
const CONNECT_MS = 1_000;
/** If a connection that lasted longer than this breaks, the link reconnects at once. */
const LASTING_MS = 1_000;

/**
 * Creates the link and waits until its first attempt to connect has succeeded or failed.
 *
 * After any failure, the link discards the connection and its client: after a late or unexpected reply, each further reply
 * would belong to another command. Without a connection, `ask` fails at once, and the link reconnects in the background.
 */
export async function openRedisLink({
  url,
  log,
  metrics,
  deadlineMs = 100,
  retryMs = 500,
}: RedisLinkOptions): Promise<RedisLink> {
  // Imported on demand, so that a program without Redis starts faster. The default export, because a bundle has no named
  // exports of a CommonJS package.
  const { Redis } = (await import('ioredis')).default;
  const options = toOptions(url);
  const waiting = new Set<(error: RedisAwayError) => void>();
  const listeners: (() => void)[] = [];
  let connecting: Redis | undefined;
  let current: { readonly client: Redis; readonly since: number } | undefined;
  let timer: NodeJS.Timeout | undefined;
  let isOutageLogged = false;
  let isClosed = false;

  await connect();
  return {
    get isUp() {
      return current !== undefined;
    },
    ask,
    onUp(listener) {
      listeners.push(listener);
      if (current) listener();
    },
    close() {
      isClosed = true;
      clearTimeout(timer);
      connecting?.disconnect();
      if (current) discard(current.client);
    },
  };

  async function connect(): Promise<void> {
    const client = new Redis(options);
    connecting = client;
    const errors: Error[] = [];
    client.on('error', (error: Error) => {
      errors.push(error);
      lose(client, reasonOf(error), error);
    });
    client.on('close', () => lose(client, 'closed', new Error('the connection was closed')));
    try {
      await within(CONNECT_MS, checkServer(client));
      // After a wrong password or database number, ioredis emits an error and continues.
      if (errors[0]) throw errors[0];
    } catch (error) {
      client.disconnect();
      reportOutage('unreachable', errors[0] ?? (error as Error));
      connectLater(retryMs);
      return;
    }
    if (isClosed) {
      client.disconnect();
      return;
    }
    current = { client, since: performance.now() };
    metrics.setShared(true);
    if (isOutageLogged) log.info('Redis is back: limits are shared again');
    isOutageLogged = false;
    for (const listener of listeners) listener();
  }

  function ask<T>(send: (client: Redis) => Promise<unknown>, read: (reply: unknown) => T): Promise<T> {
    if (!current) return Promise.reject(new RedisAwayError('Redis is away'));
    const { client } = current;
    return new Promise((resolve, reject) => {
      const deadline = setTimeout(() => {
        // If this process was paused, the reply may have arrived unread. Node reads it before it runs the immediate.
        setImmediate(() => {
          if (waiting.has(fail)) lose(client, 'timeout', new Error(`no answer within ${deadlineMs} ms`));
        });
      }, deadlineMs);
      const fail = (error: RedisAwayError): void => {
        clearTimeout(deadline);
        reject(error);
      };
      waiting.add(fail);
      send(client).then(
        (reply) => {
          if (!waiting.has(fail)) return;
          try {
            resolve(read(reply));
            clearTimeout(deadline);
            waiting.delete(fail);
          } catch (error) {
            lose(client, 'garbage', error as Error);
          }
        },
        (error: unknown) => lose(client, reasonOf(error as Error), error as Error),
      );
    });
  }

  function lose(client: Redis, reason: SharingFailure, error: Error): void {
    if (current?.client !== client) return;
    const hasLasted = performance.now() - current.since > LASTING_MS;
    discard(client);
    if (isClosed) return;
    reportOutage(reason, error);
    connectLater(hasLasted ? 0 : retryMs);
  }

  function discard(client: Redis): void {
    current = undefined;
    client.disconnect();
    const unanswered = [...waiting];
    waiting.clear();
    for (const fail of unanswered) fail(new RedisAwayError('Redis has gone away'));
  }

  function reportOutage(reason: SharingFailure, { message }: Error): void {
    metrics.setShared(false);
    metrics.countFailure(reason);
    if (isOutageLogged || isClosed) return;
    isOutageLogged = true;
    // Do not log the error itself: it may contain the command with the password.
    log.warn({ reason, failure: withoutArguments(message) }, 'Redis is away: limits go on per instance');
  }

  function connectLater(milliseconds: number): void {
    if (isClosed) return;
    timer = setTimeout(() => void connect(), milliseconds).unref();
  }
}

/** Connects and checks that the server can write. A server that loads its data, a replica or a full server cannot. */
async function checkServer(client: Redis): Promise<void> {
  await client.connect();
  const word = String(Math.random());
  const reply = await client.eval(
    `redis.call('SET', KEYS[1], ARGV[1], 'PX', 60000) return redis.call('GET', KEYS[1])`,
    1,
    'animals:greeting',
    word,
  );
  if (reply !== word) throw new Error('what was written was not read back');
}

function reasonOf({ name }: Error): SharingFailure {
  if (name === 'ReplyError') return 'error';
  return name === 'ParserError' ? 'garbage' : 'closed';
}

/** Removes the command's arguments, which some servers quote in error messages. */
function withoutArguments(message: string): string {
  return message.split(', with args')[0] as string;
}

function toOptions(url: string): RedisOptions {
  const { protocol, hostname, port, username, password, pathname } = new URL(url);
  const host = hostname.replace(/^\[|\]$/g, '');
  return {
    host,
    port: Number(port || 6_379),
    ...(username && { username: decodeURIComponent(username) }),
    ...(password && { password: decodeURIComponent(password) }),
    db: Number(pathname.slice(1)),
    ...(protocol === 'rediss:' && { tls: isIP(host) ? {} : { servername: host } }),
    lazyConnect: true,
    connectTimeout: CONNECT_MS,
    disconnectTimeout: 100,
    enableOfflineQueue: false,
    enableReadyCheck: false,
    autoResendUnfulfilledCommands: false,
    maxRetriesPerRequest: 0,
    retryStrategy: null,
    disableClientInfo: true,
    protocol: 2,
  };
}

async function within(milliseconds: number, promise: Promise<void>): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`no answer within ${milliseconds} ms`)), milliseconds);
  });
  await Promise.race([promise, late]).finally(() => clearTimeout(timer));
}
