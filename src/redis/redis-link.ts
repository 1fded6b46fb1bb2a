import type { Redis } from 'ioredis';
import type { Log } from '../observability/log.js';
import type { SharingFailure, SharingMetrics } from '../observability/metrics.js';
import type { Span } from '../observability/tracing.js';
import { createRedisClients, type RedisClient } from './redis-client.js';

export type RedisCommands = Pick<Redis, 'evalsha' | 'eval' | 'get' | 'set'>;

interface RedisCall {
  readonly name: string;
  readonly operation: 'EVALSHA' | 'GET' | 'SET';
  /** The span of the request that needs the reply. Absent if no single request does. */
  readonly span?: Span | undefined;
}

/**
 * Called when a call is sent. Not called for a call without a connection.
 * @returns a function to call when the call ends, with the kind of failure if it failed
 */
export type ObserveCall = (call: RedisCall) => (failure?: SharingFailure) => void;

export type RedisLink = Awaited<ReturnType<typeof openRedisLink>>;

/** How long an attempt to connect may take, including the check that Redis can write and read. */
const CONNECT_MS = 1_000;
const RETRY_MS = 250;

/**
 * Opens a connection to Redis, which may be unavailable at any time: one server, the primary that Sentinels name, or a
 * cluster. A cluster is available while all of its primaries are, so that all keys are counted in the same way. Waits
 * until the first attempt to connect has succeeded or failed.
 *
 * After any failure, the link discards the connection and its client: after a late or unexpected reply, each further
 * reply would belong to another command. Without a connection, `ask` returns undefined at once, and the link reconnects
 * in the background.
 */
export async function openRedisLink(options: {
  readonly url: string;
  readonly log: Log;
  /** Absent for a link whose outages do not matter. They are logged at the level `debug`. */
  readonly metrics?: SharingMetrics | undefined;
  readonly observe?: ObserveCall | undefined;
  /** How long a reply may take, in milliseconds. */
  readonly deadlineMs?: number;
}) {
  const { url, log, metrics, observe, deadlineMs = 100 } = options;
  const clients = await createRedisClients(url, CONNECT_MS);
  const waiting = new Set<(reason: SharingFailure) => void>();
  const listeners: (() => void)[] = [];
  let client: RedisClient | undefined;
  /** Whether the client's connection has been found to work. */
  let isUp = false;
  let timer: NodeJS.Timeout | undefined;
  let hasBeenUp = false;
  let isOutageLogged = false;
  let failure: string | undefined;
  let isClosed = false;

  await connect();
  return {
    get isUp() {
      return isUp;
    },
    /** What the last connection failed with. Undefined if there was none that failed. */
    get failure() {
      return failure;
    },
    ask,
    /** Adds a listener that is called whenever the link connects, and at once if it is connected now. */
    onUp(listener: () => void): void {
      listeners.push(listener);
      if (isUp) listener();
    },
    close(): void {
      isClosed = true;
      clearTimeout(timer);
      discard('closed');
    },
  };

  async function connect(): Promise<void> {
    const created = clients.create();
    client = created;
    const errors: Error[] = [];
    created.on('error', (error: Error) => {
      errors.push(error);
      lose(created, reasonOf(error), error);
    });
    created.on('close', () => lose(created, 'closed', new Error('the connection was closed')));
    try {
      if ((await within(CONNECT_MS, clients.check(created))) === 'cluster') {
        created.disconnect();
        await connect();
        return;
      }
      // After a wrong password or database number, ioredis emits an error and continues.
      if (errors[0]) throw errors[0];
    } catch (error) {
      created.disconnect();
      reportOutage('unreachable', errors[0] ?? (error as Error));
      connectLater();
      return;
    }
    if (isClosed) {
      created.disconnect();
      return;
    }
    isUp = true;
    hasBeenUp = true;
    metrics?.setShared(true);
    if (isOutageLogged) log[metrics ? 'info' : 'debug']('Redis is back: limits are shared again');
    isOutageLogged = false;
    for (const listener of listeners) listener();
  }

  /**
   * Sends commands once. Nothing is queued or retried.
   * @param read - parses the reply; throws if the reply is corrupt, and the connection is then closed
   * @returns undefined, by the deadline at the latest, if Redis is unavailable or its reply is late or corrupt. The
   * commands may or may not have run.
   */
  function ask<T>(
    call: RedisCall,
    send: (client: RedisCommands) => Promise<unknown>,
    read: (reply: unknown) => T,
  ): Promise<T | undefined> {
    const asked = client;
    if (!asked || !isUp) return Promise.resolve(undefined);
    const end = observe?.(call);
    return new Promise((resolve) => {
      const settle = (result: T | undefined, failure?: SharingFailure): void => {
        clearTimeout(deadline);
        waiting.delete(fail);
        end?.(failure);
        resolve(result);
      };
      const fail = (reason: SharingFailure): void => settle(undefined, reason);
      const deadline = setTimeout(() => {
        // If this process was paused, the reply may have arrived unread. Node reads it before it runs the immediate.
        setImmediate(() => {
          if (waiting.has(fail)) lose(asked, 'timeout', new Error(`no answer within ${deadlineMs} ms`));
        });
      }, deadlineMs);
      waiting.add(fail);
      send(asked).then(
        (reply) => {
          if (!waiting.has(fail)) return;
          try {
            settle(read(reply));
          } catch (error) {
            lose(asked, 'garbage', error as Error);
          }
        },
        (error: unknown) => lose(asked, reasonOf(error as Error), error as Error),
      );
    });
  }

  function lose(lost: RedisClient, reason: SharingFailure, error: Error): void {
    if (lost !== client || !isUp) return;
    discard(reason);
    reportOutage(reason, error);
    connectLater();
  }

  /** Closes the connection, and ends all calls that wait for a reply. */
  function discard(reason: SharingFailure): void {
    isUp = false;
    client?.disconnect();
    for (const fail of [...waiting]) fail(reason);
  }

  function reportOutage(reason: SharingFailure, { message }: Error): void {
    failure = withoutArguments(message);
    metrics?.setShared(false);
    metrics?.countFailure(reason);
    // Until the link is up for the first time, the start waits for it and says so.
    if (isOutageLogged || isClosed || !hasBeenUp) return;
    isOutageLogged = true;
    // Do not log the error itself: it may contain the command with the password.
    log[metrics ? 'warn' : 'debug']({ reason, failure }, 'Redis is unavailable: this instance counts limits alone');
  }

  function connectLater(): void {
    if (!isClosed) timer = setTimeout(() => void connect(), RETRY_MS).unref();
  }
}

function reasonOf({ name }: Error): SharingFailure {
  if (name === 'ReplyError') return 'error';
  return name === 'ParserError' ? 'garbage' : 'closed';
}

/** Removes the command's arguments, which some servers quote in error messages. */
function withoutArguments(message: string): string {
  return message.split(', with args')[0] as string;
}

async function within<T>(milliseconds: number, promise: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`no answer within ${milliseconds} ms`)), milliseconds);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}
