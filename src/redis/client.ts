import { once } from 'node:events';
import { isIP } from 'node:net';
import { connect } from 'node:tls';
import type * as Ioredis from 'ioredis';
import type { WaitUntilAvailable } from '../backend.js';
import { ConfigError } from '../config.js';
import { StoreError } from '../errors.js';
import type { Log } from '../observability/log.js';
import type { Metrics, SharingFailure } from '../observability/metrics.js';
import { parseRedisUrl, type RedisAddress } from '../redis-url.js';

const CONNECT_MS = 1_000;
const RETRY_MS = 250;
/** Each command that the scripts use: the user may lack one. A full Redis refuses only the first write of a script. */
const CHECK = `
redis.call('TIME')
for _, command in ipairs({
  {'SET', 1}, {'GET'}, {'PTTL'}, {'PEXPIRE', 60000},
  {'DEL'}, {'RPUSH', 1}, {'LINDEX', 0}, {'LTRIM', 0, -1},
  {'DEL'}, {'HSET', 'a', 1}, {'HMGET', 'a'}, {'HGETALL'}, {'PEXPIREAT', 0},
}) do redis.call(command[1], KEYS[1], unpack(command, 2)) end
return {}
`;

/** After this many late replies in a row, Redis counts as unavailable. */
const LATE_IN_A_ROW = 3;

/**
 * Runs a script in one atomic step. It returns an array of integers.
 * @returns undefined if Redis is unavailable, or replies late or with an error. The script may have run all the same.
 */
export type Script = (keys: string[], args: (string | number)[]) => Promise<readonly number[] | undefined>;

export type RedisClient = Awaited<ReturnType<typeof openRedis>>;

export interface RedisOptions {
  readonly url: string;
  readonly setting?: string;
  readonly timeoutMs: number;
  readonly log?: Log;
  readonly metrics?: Pick<Metrics, 'watchSharing' | 'observeDatabase'>;
  /** Without it, only the first attempt to connect is awaited, and may fail. */
  readonly waitUntilAvailable?: WaitUntilAvailable;
}

/**
 * Connects to one server, the primary that Sentinels name, or a cluster. An error or a late reply fails only its own
 * call. In an outage (docs/redis.md), all calls fail at once, until Redis accepts a write on a new connection.
 * @throws ConfigError
 */
export async function openRedis(options: RedisOptions) {
  const { url, setting = 'REDIS_URL', timeoutMs, log, metrics, waitUntilAvailable } = options;
  const ioredis = (await import('ioredis')).default;
  const sharing = metrics?.watchSharing();
  const listeners: (() => unknown)[] = [];
  let isUp = false;
  let wasUp = false;
  let failure: Error | undefined;
  let lateSince = Infinity;

  const address = parseRedisUrl(url) as RedisAddress;
  const client = createClient(ioredis, address, timeoutMs);
  client.defineCommand('check', { lua: CHECK });
  client.on('connect', () => (failure = undefined));
  client.on('ready', () => void check());
  client.on('error', fail);
  client.on('close', () => lose('closed', new Error('the connection was closed')));
  await new Promise<void>((resolve) => {
    listeners.push(resolve);
    client.once('error', resolve).once('reconnecting', resolve);
  });
  try {
    await waitUntilAvailable?.(`${setting} names a Redis`, async () => {
      if (!isUp) throw toStartError(setting, (address.tls && (await findTlsFailure(address))) ?? failure);
    });
  } catch (error) {
    client.disconnect();
    throw error;
  }

  return {
    get isUp() {
      return isUp;
    },
    /** Calls the listener whenever Redis is available again. */
    onUp: (listener: () => unknown): void => void listeners.push(listener),
    /** @param name - also in the metrics */
    defineScript(name: string, lua: string): Script {
      client.defineCommand(name, { lua });
      return (keys, args) => (isUp ? call(name, keys, args) : Promise.resolve(undefined));
    },
    close(): void {
      isUp = false;
      client.disconnect();
    },
  };

  async function call(name: string, ...args: Parameters<Script>): Promise<readonly number[] | undefined> {
    const sentAt = performance.now();
    let reason: SharingFailure | undefined;
    try {
      const reply = await run(name, ...args);
      lateSince = Infinity;
      // After a corrupt reply, the next ones may belong to other calls.
      return isUp ? reply : undefined;
    } catch (thrown) {
      const error = thrown as Error;
      reason = reasonOf(error);
      sharing?.countFailure(reason);
      if (isOutage(reason, error)) lose(reason, error);
      return undefined;
    } finally {
      metrics?.observeDatabase('redis', name, reason, (performance.now() - sentAt) / 1_000);
    }
  }

  async function run(name: string, ...[keys, args]: Parameters<Script>): Promise<number[]> {
    const commands = client as unknown as Record<string, (...args: unknown[]) => Promise<number[]>>;
    const reply = await commands[name]?.(keys.length, ...keys, ...args);
    if (Array.isArray(reply) && reply.every(Number.isSafeInteger)) return reply;
    throw new TypeError('the reply is corrupt');
  }

  /** Finds out whether Redis accepts writes. A cluster needs all of its primaries. */
  async function check(): Promise<void> {
    try {
      // After a wrong database number, ioredis goes on.
      if (failure) throw failure;
      if (client instanceof ioredis.Cluster) await Promise.all(client.nodes('master').map((node) => node.ping()));
      await run('check', ['animals:check'], []);
    } catch (error) {
      fail(error as Error);
      reconnect();
      return;
    }
    if (client.status !== 'ready') return;
    if (wasUp) log?.info('Redis is back: limits are shared again');
    isUp = wasUp = true;
    lateSince = Infinity;
    sharing?.setShared(true);
    for (const listener of listeners) listener();
  }

  function fail(error: Error): void {
    if (isUp) return lose('closed', error);
    failure = (error as { lastNodeError?: Error }).lastNodeError ?? error;
    sharing?.countFailure('unreachable');
  }

  function reasonOf(error: Error): SharingFailure {
    if (codeOf(error)) return 'error';
    if (error instanceof TypeError) return 'garbage';
    return client.status === 'ready' ? 'timeout' : 'closed';
  }

  function isOutage(reason: SharingFailure, error: Error): boolean {
    // WRONGTYPE and ERR concern the keys of the call, others the server, such as READONLY and OOM.
    if (reason === 'error') return !['WRONGTYPE', 'ERR'].includes(codeOf(error));
    if (reason !== 'timeout') return true;
    // Replies that are missed at the same time have one cause.
    const now = performance.now();
    lateSince = Math.min(lateSince, now);
    return now - lateSince >= (LATE_IN_A_ROW - 1) * timeoutMs * 0.9;
  }

  function lose(reason: SharingFailure, error: Error): void {
    if (!isUp) return;
    isUp = false;
    sharing?.setShared(false);
    log?.warn({ reason, failure: error.message }, 'Redis is unavailable: this instance counts limits alone');
    reconnect();
  }

  function reconnect(): void {
    if (client.status === 'ready') client.disconnect(true);
  }
}

function createClient(
  { Redis, Cluster }: Pick<typeof Ioredis, 'Redis' | 'Cluster'>,
  { topology, hosts, name, tls, ...user }: RedisAddress,
  timeoutMs: number,
) {
  const retryStrategy = (): number => RETRY_MS;
  const options = {
    ...user,
    tls,
    retryStrategy,
    commandTimeout: timeoutMs,
    connectTimeout: CONNECT_MS,
    disconnectTimeout: 100,
    enableOfflineQueue: false,
    // It writes to standard error if the user may not use INFO.
    enableReadyCheck: false,
    maxRetriesPerRequest: 0,
    disableClientInfo: true,
  };
  if (topology === 'cluster') {
    return new Cluster([...hosts], {
      redisOptions: options,
      clusterRetryStrategy: retryStrategy,
      enableOfflineQueue: false,
      retryDelayOnFailover: 0,
      retryDelayOnClusterDown: 0,
    });
  }
  if (topology === 'sentinel') {
    return new Redis({
      ...options,
      name,
      sentinels: [...hosts],
      sentinelRetryStrategy: retryStrategy,
      sentinelCommandTimeout: timeoutMs,
      sentinelTLS: tls,
      enableTLSForSentinelMode: tls !== undefined,
    });
  }
  const [{ host, port }] = hosts as [RedisAddress['hosts'][number]];
  return new Redis({ ...options, host, port, tls: tls && !isIP(host) ? { servername: host } : tls });
}

/** Why no host accepts TLS: ioredis does not say that of Sentinels and clusters. */
function findTlsFailure({ hosts }: RedisAddress): Promise<Error | undefined> {
  const attempts = hosts.map(async ({ host, port }) => {
    const socket = connect({ host, port, servername: isIP(host) ? '' : host });
    await once(socket, 'secureConnect', { signal: AbortSignal.timeout(CONNECT_MS) }).finally(() => socket.destroy());
  });
  return Promise.any(attempts).then(
    () => undefined,
    (error: unknown) => ((error as AggregateError).errors as Error[]).find(({ name }) => name !== 'AbortError'),
  );
}

/** https://redis.io/docs/latest/develop/reference/protocol-spec/#simple-errors */
function codeOf({ name, message }: Error): string {
  return name === 'ReplyError' ? (message.split(' ')[0] as string) : '';
}

/** Waiting does not help against a wrong password, user, database or kind of Redis. */
function toStartError(setting: string, error: Error & { command?: { name: string } } = new Error('no answer')): Error {
  const name = error.command?.name ?? '';
  const code = codeOf(error);
  const isRefused = ['WRONGPASS', 'NOAUTH', 'NOPERM', 'MOVED'].includes(code);
  if (!isRefused && !['hello', 'auth', 'select'].includes(name))
    return new StoreError('unavailable', error.message, { cause: error });
  // The message may quote the password.
  return new ConfigError(`${setting} names a Redis that answers ${code} to ${name.toUpperCase()}`);
}
