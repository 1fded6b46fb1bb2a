import { isIP } from 'node:net';
import type { WaitUntilAvailable } from '../backend.js';
import { ConfigError } from '../config.js';
import { StoreError } from '../errors.js';
import type { Log } from '../observability/log.js';
import type { Metrics, SharingFailure } from '../observability/metrics.js';
import { parseRedisUrl, type RedisAddress } from './url.js';

const RETRY_MS = 250;
const CONNECT_MS = 1_000;
/** A Sentinel gets less time, so that there is some left to ask another one. */
const SENTINEL_MS = 300;
/** After this many late replies in a row, Redis counts as unavailable. */
const LATE_IN_A_ROW = 3;

/** Writes a value. */
const CHECK = `redis.call('SET', KEYS[1], 1, 'PX', 60000) return {1}`;

/**
 * Runs a script in one atomic step. It returns an array of integers.
 * @returns undefined if Redis is unavailable, replies with an error or replies too late. The script may have run.
 */
export type Script = (
  keys: readonly string[],
  args: readonly (string | number)[],
) => Promise<readonly number[] | undefined>;

export type RedisClient = Awaited<ReturnType<typeof openRedis>>;

/**
 * Connects to one server, the primary that Sentinels name, or a cluster. Any of them may be unavailable at any time;
 * ioredis then connects again in the background.
 *
 * An error or a late reply fails only its own call. Redis counts as unavailable if the connection is lost, several
 * replies in a row are late, or a reply is corrupt or an error of the whole server. Calls then fail at once, until a new
 * connection works and Redis accepts a write.
 * @param timeoutMs - how long a reply may take
 * @param waitUntilAvailable - without it, only the first attempt to connect is awaited, and may fail
 * @throws ConfigError if Redis refuses the connection, or is unavailable for as long as the start may take
 */
export async function openRedis(options: {
  /** Has been validated. */
  readonly url: string;
  readonly timeoutMs: number;
  readonly log?: Log;
  readonly metrics?: Pick<Metrics, 'watchSharing' | 'observeDatabase'>;
  readonly waitUntilAvailable?: WaitUntilAvailable;
}) {
  const { url, timeoutMs, log, metrics, waitUntilAvailable } = options;
  const ioredis = (await import('ioredis')).default;
  const sharing = metrics?.watchSharing();
  const listeners: (() => void)[] = [];
  let isUp = false;
  let wasUp = false;
  /** What went wrong last. Undefined again when there is a connection. */
  let failure: Error | undefined;
  let lateInARow = 0;
  let lastLateAt = 0;

  const client = createClient(ioredis, parseRedisUrl(url) as RedisAddress, timeoutMs);
  client.defineCommand('check', { lua: CHECK });
  client.on('connect', () => (failure = undefined));
  client.on('ready', () => void check());
  client.on('error', fail);
  client.on('close', () => lose('closed', new Error('the connection was closed')));
  const close = (): void => {
    isUp = false;
    client.disconnect();
  };

  await new Promise<void>((resolve) => {
    listeners.push(resolve);
    client.once('error', resolve).once('reconnecting', resolve);
  });
  await waitUntilAvailable?.('REDIS_URL names a Redis', async () => {
    if (!isUp) throw toStartError(failure);
  }).catch((error: unknown) => {
    close();
    throw error;
  });

  return {
    get isUp() {
      return isUp;
    },
    /** Adds a listener that is called whenever Redis is available again. */
    onUp: (listener: () => void): void => void listeners.push(listener),
    /** @param name - the name of the script in the metrics */
    defineScript(name: string, lua: string): Script {
      client.defineCommand(name, { lua });
      return async (keys, args) => {
        if (!isUp) return undefined;
        const sentAt = performance.now();
        let reason: SharingFailure | undefined;
        try {
          const reply = await run(name, keys, args);
          // After a corrupt reply, those that came with it may belong to other calls.
          if (!isUp) return undefined;
          lateInARow = 0;
          return reply;
        } catch (error) {
          reason = reasonOf(error as Error);
          sharing?.countFailure(reason);
          if (isOutage(reason, error as Error, sentAt)) lose(reason, error as Error);
        } finally {
          metrics?.observeDatabase('redis', name, reason, (performance.now() - sentAt) / 1_000);
        }
      };
    },
    close,
  };

  async function run(name: string, keys: readonly string[], args: readonly (string | number)[]): Promise<number[]> {
    const commands = client as unknown as Record<string, (...args: unknown[]) => Promise<number[]>>;
    const reply = await commands[name]?.(keys.length, ...keys, ...args);
    if (Array.isArray(reply) && reply.every(Number.isSafeInteger)) return reply;
    throw new TypeError('the reply is corrupt');
  }

  function reasonOf(error: Error): SharingFailure {
    if (codeOf(error)) return 'error';
    if (error instanceof TypeError) return 'garbage';
    return client.status === 'ready' ? 'timeout' : 'closed';
  }

  /** A server that loads its data, a replica and a full server cannot write. A cluster needs all of its primaries. */
  async function check(): Promise<void> {
    try {
      // After a wrong database number, ioredis goes on.
      if (failure) throw failure;
      if (client instanceof ioredis.Cluster) await Promise.all(client.nodes('master').map((node) => node.ping()));
      await run('check', ['animals:check'], []);
    } catch (error) {
      fail(error as Error);
      if (client.status === 'ready') client.disconnect(true);
      return;
    }
    if (client.status !== 'ready') return;
    if (wasUp) log?.info('Redis is back: limits are shared again');
    isUp = wasUp = true;
    lateInARow = 0;
    sharing?.setShared(true);
    for (const listener of listeners) listener();
  }

  function fail(error: Error): void {
    if (isUp) return lose('closed', error);
    failure = (error as { lastNodeError?: Error }).lastNodeError ?? error;
    sharing?.countFailure('unreachable');
  }

  function isOutage(reason: SharingFailure, error: Error, sentAt: number): boolean {
    // WRONGTYPE and ERR concern the keys of the call. Other errors, such as READONLY and OOM, concern the server.
    if (reason === 'error') return !['WRONGTYPE', 'ERR'].includes(codeOf(error));
    if (reason !== 'timeout') return true;
    // Calls that were waiting at the same time are late for one reason.
    if (sentAt >= lastLateAt) {
      lateInARow += 1;
      lastLateAt = performance.now();
    }
    return lateInARow >= LATE_IN_A_ROW;
  }

  function lose(reason: SharingFailure, error: Error): void {
    if (!isUp) return;
    isUp = false;
    sharing?.setShared(false);
    log?.warn({ reason, failure: error.message }, 'Redis is unavailable: this instance counts limits alone');
    if (client.status === 'ready') client.disconnect(true);
  }
}

function createClient(
  { Redis, Cluster }: Pick<typeof import('ioredis'), 'Redis' | 'Cluster'>,
  { topology, hosts, name, ...address }: RedisAddress,
  timeoutMs: number,
) {
  const retryStrategy = (): number => RETRY_MS;
  const options = {
    ...address,
    commandTimeout: timeoutMs,
    connectTimeout: CONNECT_MS,
    disconnectTimeout: 100,
    enableOfflineQueue: false,
    // It writes to standard error if the user may not use INFO.
    enableReadyCheck: false,
    autoResendUnfulfilledCommands: false,
    maxRetriesPerRequest: 0,
    disableClientInfo: true,
  };
  if (topology === 'cluster') {
    return new Cluster([...hosts], {
      enableOfflineQueue: false,
      redisOptions: options,
      clusterRetryStrategy: retryStrategy,
      retryDelayOnFailover: 0,
      retryDelayOnClusterDown: 0,
    });
  }
  if (topology === 'sentinel') {
    return new Redis({
      ...options,
      sentinels: [...hosts],
      name,
      retryStrategy,
      sentinelRetryStrategy: retryStrategy,
      sentinelCommandTimeout: SENTINEL_MS,
      connectTimeout: SENTINEL_MS,
      enableTLSForSentinelMode: address.tls !== undefined,
      sentinelTLS: address.tls,
    });
  }
  const [{ host, port }] = hosts as [RedisAddress['hosts'][number]];
  const tls = address.tls && !isIP(host) ? { servername: host } : address.tls;
  return new Redis({ ...options, host, port, tls, retryStrategy });
}

/** An error that Redis replied with. ioredis adds the command. */
interface ReplyError extends Error {
  readonly command?: { readonly name: string };
}

/** The first word of an error of Redis: https://redis.io/docs/latest/develop/reference/protocol-spec/#simple-errors */
function codeOf({ name, message }: Error): string {
  return name === 'ReplyError' ? (message.split(' ')[0] as string) : '';
}

/** Waiting does not help against a wrong password, user, database number or kind of Redis. */
function toStartError(error: ReplyError = new Error('it does not answer')): Error {
  const { command: { name = '' } = {}, message } = error;
  const code = codeOf(error);
  const isRefused = ['WRONGPASS', 'NOAUTH', 'NOPERM', 'MOVED'].includes(code);
  if (!isRefused && !['hello', 'auth', 'select'].includes(name)) return new StoreError('unavailable', message);
  // A server may quote what it received, and that could be the password.
  return new ConfigError(`REDIS_URL names a Redis that answers ${code} to ${name.toUpperCase()}`);
}
