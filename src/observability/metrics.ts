import { collectDefaultMetrics, Counter, Gauge, Histogram, Registry } from 'prom-client';

/** What the program counts about itself. No key, name or identifier ever becomes a label. */
export interface Metrics {
  /** One HTTP request answered, in seconds. */
  observeHttp(route: string, method: string, status: number, seconds: number): void;
  /** One GraphQL operation answered. */
  countOperation(type: string, outcome: 'ok' | 'error' | 'refused'): void;
  /** Begins to say how sharing through Redis goes; where nothing is shared, there is nothing to say. */
  watchSharing(): SharingMetrics;
  /** One request refused because too many others are in progress. */
  countOverload(route: string): void;
  /** The Prometheus text. */
  render(): Promise<string>;
  readonly contentType: string;
}

/** How sharing through Redis goes. */
export interface SharingMetrics {
  /** Whether limits are shared just now, or go on per instance. */
  setShared(isShared: boolean): void;
  /** Redis failed: it was not reached, not in time, hung up, or answered with an error or with what nobody asked for. */
  countFailure(reason: SharingFailure): void;
}

export const SHARING_FAILURES = ['unreachable', 'timeout', 'closed', 'error', 'garbage'] as const;
export type SharingFailure = (typeof SHARING_FAILURES)[number];

const SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5];

/** Makes a registry of its own, so that two programs in one process do not mix their numbers. */
export function createMetrics(): Metrics {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry });
  const http = new Histogram({
    name: 'http_server_request_duration_seconds',
    help: 'Duration of HTTP requests',
    labelNames: ['http_route', 'http_request_method', 'http_response_status_code'],
    buckets: SECONDS,
    registers: [registry],
  });
  const operations = new Counter({
    name: 'graphql_server_operations_total',
    help: 'GraphQL operations answered',
    labelNames: ['graphql_operation_type', 'outcome'],
    registers: [registry],
  });
  const overloads = new Counter({
    name: 'http_server_overload_refusals_total',
    help: 'HTTP requests refused because too many others were in progress',
    labelNames: ['http_route'],
    registers: [registry],
  });
  return {
    observeHttp: (route, method, status, seconds) =>
      http.observe({ http_route: route, http_request_method: method, http_response_status_code: status }, seconds),
    countOperation: (type, outcome) => operations.inc({ graphql_operation_type: type, outcome }),
    watchSharing() {
      const shared = new Gauge({
        name: 'limiter_shared',
        help: 'Whether limits are shared through Redis (1) or go on per instance (0)',
        registers: [registry],
      });
      const failures = new Counter({
        name: 'redis_failures_total',
        help: 'Failures of Redis, attempts to reach it again included',
        labelNames: ['reason'],
        registers: [registry],
      });
      for (const reason of SHARING_FAILURES) failures.inc({ reason }, 0);
      return {
        setShared: (isShared) => shared.set(isShared ? 1 : 0),
        countFailure: (reason) => failures.inc({ reason }),
      };
    },
    countOverload: (route) => overloads.inc({ http_route: route }),
    render: () => registry.metrics(),
    contentType: registry.contentType,
  };
}
