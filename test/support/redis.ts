import { Redis } from 'ioredis';
import { pino } from 'pino';
import { describe, inject } from 'vitest';
import type { WaitUntilAvailable } from '../../src/backend.js';
import { openRedis, type RedisClient } from '../../src/redis/client.js';

/** A suite that needs a Redis server. Without one it is skipped; redis-server.ts prints the reason. */
export const describeWithRedis = describe.skipIf(inject('redisUrl') === undefined);
/** A suite that starts and stops its own Redis servers. */
export const describeWithRedisServer = describe.skipIf(!inject('hasRedisServer'));

/** The Redis server of this test run. */
export function redisUrl(): string {
  return inject('redisUrl') as string;
}

/** Connects a plain client to inspect what the program stores. */
export async function connectRedis(url: string): Promise<Redis> {
  const client = new Redis(url, { lazyConnect: true, retryStrategy: null });
  client.on('error', () => undefined);
  await client.connect();
  return client;
}

/** Opens the program's Redis client and records its failures and log lines. */
export async function openTestRedis(
  url: string,
  options: { readonly timeoutMs?: number; readonly waitUntilAvailable?: WaitUntilAvailable } = {},
): Promise<{ client: RedisClient; failures: string[]; logged: string[] }> {
  const failures: string[] = [];
  const logged: string[] = [];
  const metrics = {
    watchSharing: () => ({ setShared: () => undefined, countFailure: (reason: string) => void failures.push(reason) }),
    observeDatabase: () => undefined,
  };
  const log = pino({}, { write: (line: string) => void logged.push(line) });
  return { client: await openRedis({ url, timeoutMs: 250, log, metrics, ...options }), failures, logged };
}
