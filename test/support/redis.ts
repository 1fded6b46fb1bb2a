import { Redis } from 'ioredis';
import { pino } from 'pino';
import { describe, inject } from 'vitest';
import type { SharingMetrics } from '../../src/observability/limiter-metrics.js';
import { openRedisLink, type RedisLink } from '../../src/redis/redis-link.js';

/** Suites that need any Redis server. Without one they are skipped, which the setup of the run has said. */
export const describeWithRedis = describe.skipIf(inject('redisUrl') === undefined);
/** Suites that start, stop and restart Redis servers of their own. */
export const describeWithRedisServer = describe.skipIf(!inject('hasRedisServer'));

/** The Redis server of this test run. */
export function redisUrl(): string {
  return inject('redisUrl') as string;
}

/** A plain client beside the program's, to look at what it keeps. */
export async function connectRedis(url: string): Promise<Redis> {
  const client = new Redis(url, { lazyConnect: true, retryStrategy: null });
  client.on('error', () => undefined);
  await client.connect();
  return client;
}

/** Opens the program's own way to Redis, and keeps what it says of it. */
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
