import { hash } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Redis } from 'ioredis';
import { ConfigError } from '../config.js';
import { StoreError } from '../errors.js';
import type { Log } from '../observability/log.js';
import type { Metrics, SharingFailure, SharingMetrics } from '../observability/metrics.js';
import type { WaitUntilAvailable } from '../backend.js';
import { createRedisClients, type RedisClient } from './redis-client.js';

export type RedisCommands = Pick<Redis, 'evalsha' | 'eval' | 'get' | 'set'>;

interface RedisCall {
  readonly name: string;
  readonly operation: 'EVALSHA' | 'GET' | 'SET';
}

/**
 * Called when a call is sent. Not called for a call without a connection.
 * @returns a function to call when the call ends, with the kind of failure if it failed
 */
type ObserveCall = (call: RedisCall) => (failure?: SharingFailure) => void;

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
  /** Absent for a link whose outages do not matter, like the metrics. */
  readonly log?: Log | undefined;
  readonly metrics?: SharingMetrics | undefined;
  readonly observe?: ObserveCall | undefined;
  /** How long a reply may take, in milliseconds. */
  readonly deadlineMs?: number;
}) {
  const { url, log, metrics, observe, deadlineMs = 100 } = options;
  const clients = await createRedisClients(url, CONNECT_MS);
  /** The calls that wait for a reply. */
  const waiting = new Set<(result: undefined, failure: SharingFailure) => void>();
  const listeners: (() => void)[] = [];
  let client: RedisClient | undefined;
  /** `up` while the client's connection works. `starting` until the first one does: the start waits and says so. */
  let state: 'starting' | 'up' | 'down' | 'closed' = 'starting';
  let timer: NodeJS.Timeout | undefined;
  let failure: string | undefined;

  await connect();
  return {
    get isUp() {
      return state === 'up';
    },
    /** What the last connection failed with. Undefined if there was none that failed. */
    get failure() {
      return failure;
    },
    ask,
    /** Adds a listener that is called whenever the link connects again. */
    onUp(listener: () => void): void {
      listeners.push(listener);
    },
    close(): void {
      state = 'closed';
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
      const late = sleep(CONNECT_MS, 'late', { ref: false });
      const result = await Promise.race([clients.check(created), late]);
      if (result === 'late') throw new Error(`no answer within ${CONNECT_MS} ms`);
      if (result === 'cluster') {
        created.disconnect();
        await connect();
        return;
      }
      // After a wrong password or database number, ioredis emits an error and continues.
      if (errors[0]) throw errors[0];
    } catch (error) {
      created.disconnect();
      connectLater('unreachable', errors[0] ?? (error as Error));
      return;
    }
    if (state === 'closed') {
      created.disconnect();
      return;
    }
    metrics?.setShared(true);
    if (state === 'down') log?.info('Redis is back: limits are shared again');
    state = 'up';
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
    if (!asked || state !== 'up') return Promise.resolve(undefined);
    const end = observe?.(call);
    return new Promise((resolve) => {
      const settle = (result: T | undefined, failure?: SharingFailure): void => {
        clearTimeout(deadline);
        waiting.delete(settle);
        end?.(failure);
        resolve(result);
      };
      const deadline = setTimeout(() => {
        // If this process was paused, the reply may have arrived unread. Node reads it before it runs the immediate.
        setImmediate(() => {
          if (waiting.has(settle)) lose(asked, 'timeout', new Error(`no answer within ${deadlineMs} ms`));
        });
      }, deadlineMs);
      waiting.add(settle);
      send(asked).then(
        (reply) => {
          if (!waiting.has(settle)) return;
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
    if (lost !== client || state !== 'up') return;
    state = 'down';
    metrics?.setShared(false);
    discard(reason);
    connectLater(reason, error);
    // Do not log the error itself: it may contain the command with the password.
    log?.warn({ reason, failure }, 'Redis is unavailable: this instance counts limits alone');
  }

  function discard(reason: SharingFailure): void {
    client?.disconnect();
    for (const settle of waiting) settle(undefined, reason);
  }

  function connectLater(reason: SharingFailure, { message }: Error): void {
    // Some servers quote the arguments of the command.
    failure = message.split(', with args')[0];
    metrics?.countFailure(reason);
    if (state !== 'closed') timer = setTimeout(() => void connect(), RETRY_MS).unref();
  }
}

function reasonOf({ name }: Error): SharingFailure {
  if (name === 'ReplyError') return 'error';
  return name === 'ParserError' ? 'garbage' : 'closed';
}

/**
 * Creates the function that has Redis run a Lua script in one atomic step. Its first argument is a number unique to the
 * call, and its reply is an array of integers that starts with this number, so the reply to another call is never
 * mistaken for its own. The function returns undefined if Redis is unavailable.
 *
 * It sends the digest, and the whole text only if Redis does not know the digest.
 * @param name - its name in metrics and traces
 */
export function createScript(link: RedisLink, name: string, lua: string) {
  const digest = hash('sha1', lua);
  let calls = 0;

  return (keys: readonly string[], args: readonly (string | number)[]): Promise<readonly number[] | undefined> => {
    const call = (calls += 1);
    const parameters = [...keys, call, ...args];
    return link.ask(
      { name, operation: 'EVALSHA' },
      (client) =>
        client.evalsha(digest, keys.length, ...parameters).catch((error: unknown) => {
          if (!(error as Error).message.startsWith('NOSCRIPT')) throw error;
          return client.eval(lua, keys.length, ...parameters);
        }),
      (reply) => {
        const isOurs = Array.isArray(reply) && reply[0] === call && reply.every(Number.isSafeInteger);
        if (!isOurs) throw new Error('the reply does not match the call');
        return reply.slice(1) as readonly number[];
      },
    );
  };
}

/**
 * Opens the link of an instance.
 * @throws ConfigError if Redis refuses the connection, or does not answer within the time that the start may take
 */
export async function openRedis(url: string, log: Log, metrics: Metrics, waitUntilAvailable: WaitUntilAvailable) {
  const observe = createCallObserver(metrics);
  const limits = await openRedisLink({ url, log, metrics: metrics.watchSharing(), observe });
  const close = (): void => limits.close();
  try {
    await waitUntilAvailable('REDIS_URL names a Redis', () =>
      limits.isUp ? Promise.resolve() : Promise.reject(toStartError(limits.failure)),
    );
  } catch (error) {
    close();
    throw error;
  }
  return { limits, close };
}

/** Measures each call. */
function createCallObserver(metrics: Metrics): ObserveCall {
  return ({ name }) => {
    const startedAt = performance.now();
    return (failure) => {
      metrics.observeDatabase('redis', name, failure, (performance.now() - startedAt) / 1_000);
    };
  };
}

/** What Redis answers to a wrong password, user or database number. Waiting does not help. */
const REFUSAL = /^(?:WRONGPASS|NOAUTH|NOPERM|ERR (?:DB index|invalid DB|AUTH))/;

function toStartError(failure = 'it does not answer'): Error {
  return REFUSAL.test(failure)
    ? new ConfigError(`REDIS_URL names a Redis that refuses the connection: ${failure}`)
    : new StoreError('unavailable', failure);
}
