import { isIP } from 'node:net';
import type { Redis, RedisOptions } from 'ioredis';
import type { Log } from '../observability/log.js';
import type { SharingFailure, SharingMetrics } from '../observability/limiter-metrics.js';

/** Redis cannot be asked just now, or has not answered as it should. Nothing is said about whether the command was run. */
export class RedisAwayError extends Error {
  override readonly name = 'RedisAwayError';
}

/** The way to a Redis server, which may be away at any time. */
export interface RedisLink {
  /** Whether asking makes sense just now. */
  readonly isUp: boolean;
  /**
   * Asks Redis, once: nothing is queued or sent again.
   * @param send - sends commands
   * @param read - takes the reply; what it throws says that Redis cannot have answered so, and ends the connection
   * @throws RedisAwayError, after the deadline at the latest
   */
  ask<T>(send: (client: Redis) => Promise<unknown>, read: (reply: unknown) => T): Promise<T>;
  /** Has something done whenever Redis is there again, the first time included. */
  onUp(listener: () => void): void;
  close(): void;
}

export interface RedisLinkOptions {
  /** `redis://` or `rediss://`, with a user, a password and the number of a database if need be. */
  readonly url: string;
  readonly log: Log;
  readonly metrics: SharingMetrics;
  /** How long an answer may take, in milliseconds. */
  readonly deadlineMs?: number;
  /** Time between attempts to reach a Redis that is away, in milliseconds. */
  readonly retryMs?: number;
}

/** How long an attempt to connect may take, a written and an understood answer included, in milliseconds. */
const CONNECT_MS = 1_000;
/** A connection that lasted longer than this is worth another one at once, in milliseconds. */
const LASTING_MS = 1_000;

/**
 * Opens the way to Redis, and waits for the first attempt, whether it succeeds or not.
 *
 * A connection is trusted until its first failure, whatever it is, and then thrown away with its client: after an answer
 * that came late, or that nobody asked for, the following ones would belong to other questions. While there is none,
 * nobody waits for Redis; new ones are tried in the background.
 */
export async function openRedisLink({
  url,
  log,
  metrics,
  deadlineMs = 100,
  retryMs = 500,
}: RedisLinkOptions): Promise<RedisLink> {
  // Loaded only where it is used, for the sake of the start.
  // By its default export: a bundle has no names of a CommonJS package.
  const { Redis } = (await import('ioredis')).default;
  const options = toOptions(url);
  const waiting = new Set<(error: RedisAwayError) => void>();
  const listeners: (() => void)[] = [];
  let trying: Redis | undefined;
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
      trying?.disconnect();
      if (current) hangUp(current.client);
    },
  };

  async function connect(): Promise<void> {
    const client = new Redis(options);
    trying = client;
    const complaints: Error[] = [];
    client.on('error', (error: Error) => {
      complaints.push(error);
      lose(client, reasonOf(error), error);
    });
    client.on('close', () => lose(client, 'closed', new Error('the connection was closed')));
    try {
      await within(CONNECT_MS, greet(client));
      // A wrong password, or a database that does not exist: the client would go on with another one.
      if (complaints[0]) throw complaints[0];
    } catch (error) {
      client.disconnect();
      sayAway('unreachable', complaints[0] ?? (error as Error));
      tryLater(retryMs);
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
        // After a pause of this process the answer may be here, unread: it is read before the immediate comes.
        setImmediate(() => {
          if (waiting.has(give)) lose(client, 'timeout', new Error(`no answer within ${deadlineMs} ms`));
        });
      }, deadlineMs);
      const give = (error: RedisAwayError): void => {
        clearTimeout(deadline);
        reject(error);
      };
      waiting.add(give);
      send(client).then(
        (reply) => {
          if (!waiting.has(give)) return;
          try {
            resolve(read(reply));
            clearTimeout(deadline);
            waiting.delete(give);
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
    hangUp(client);
    if (isClosed) return;
    sayAway(reason, error);
    tryLater(hasLasted ? 0 : retryMs);
  }

  function hangUp(client: Redis): void {
    current = undefined;
    client.disconnect();
    const unanswered = [...waiting];
    waiting.clear();
    for (const give of unanswered) give(new RedisAwayError('Redis has gone away'));
  }

  function sayAway(reason: SharingFailure, { message }: Error): void {
    metrics.setShared(false);
    metrics.countFailure(reason);
    if (isOutageLogged || isClosed) return;
    isOutageLogged = true;
    // Never the error itself: it may hold the command, and that the password.
    log.warn({ reason, failure: withoutArguments(message) }, 'Redis is away: limits go on per instance');
  }

  function tryLater(milliseconds: number): void {
    if (isClosed) return;
    timer = setTimeout(() => void connect(), milliseconds).unref();
  }
}

/** Connects, and has something written: a server that only loads, only reads or is full is of no use. */
async function greet(client: Redis): Promise<void> {
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

/** Another kind of server may quote what it was sent. */
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
