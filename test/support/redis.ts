import { Redis } from 'ioredis';
import { pino } from 'pino';
import { describe, inject } from 'vitest';
import type { SharingMetrics } from '../../src/observability/metrics.js';
import { openRedisLink, type RedisLink } from '../../src/redis/redis-link.js';

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

/** Opens the program's Redis link and records its failures and log lines. */
export async function openTestLink(
  url: string,
  options: { readonly deadlineMs?: number } = {},
): Promise<{ link: RedisLink; failures: string[]; logged: string[] }> {
  const failures: string[] = [];
  const logged: string[] = [];
  const metrics: SharingMetrics = { setShared: () => undefined, countFailure: (reason) => failures.push(reason) };
  const log = pino({}, { write: (line: string) => void logged.push(line) });
  return { link: await openRedisLink({ url, log, metrics, ...options }), failures, logged };
}
