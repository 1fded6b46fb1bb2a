import { ConfigError } from '../config.js';
import { StoreError } from '../errors.js';
import type { Log } from '../observability/log.js';
import type { Metrics } from '../observability/metrics.js';
import { endSpan, startSpan, type Tracer } from '../observability/tracing.js';
import type { WaitUntilAvailable } from '../backend.js';
import { openRedisLink, type ObserveCall } from './redis-link.js';

/**
 * Opens the links of an instance: one for limits, and one for persisted queries, whose failures do not affect the
 * limits.
 * @throws ConfigError if Redis refuses the connection, or does not answer within the time that the start may take
 */
export async function openRedis(
  url: string,
  log: Log,
  metrics: Metrics,
  tracer: Tracer,
  waitUntilAvailable: WaitUntilAvailable,
) {
  const observe = createCallObserver(metrics, tracer);
  const [limits, queries] = await Promise.all([
    openRedisLink({ url, log, metrics: metrics.watchSharing(), observe }),
    openRedisLink({ url, observe }),
  ]);
  const close = (): void => {
    limits.close();
    queries.close();
  };
  try {
    await waitUntilAvailable('REDIS_URL names a Redis', () =>
      limits.isUp ? Promise.resolve() : Promise.reject(toStartError(limits.failure)),
    );
  } catch (error) {
    close();
    throw error;
  }
  return { limits, queries, close };
}

/** Measures each call, and creates a span for each call of a recorded request. The span contains no values. */
function createCallObserver(metrics: Metrics, tracer: Tracer): ObserveCall {
  return ({ name, operation, span: parent }) => {
    const startedAt = performance.now();
    const attributes = { 'db.system.name': 'redis', 'db.operation.name': operation, 'db.query.summary': name };
    const span = parent?.isRecording() ? startSpan(tracer, 'client', name, { span: parent }, attributes) : undefined;
    return (failure) => {
      metrics.observeDatabase('redis', name, failure, (performance.now() - startedAt) / 1_000);
      if (span) endSpan(span, {}, failure);
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
