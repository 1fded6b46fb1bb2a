import { Gauge, Registry } from 'prom-client';
import {
  createStatementMetrics,
  createUpstreamMetrics,
  type DatabaseConnections,
  type StatementMetrics,
  type UpstreamMetrics,
  type UpstreamState,
} from './backend-metrics.js';
import { createLimiterMetrics, type LimiterMetrics } from './limiter-metrics.js';
import { registerProcessMetrics } from './process-metrics.js';
import { Count, Durations, Family, toErrorType } from './series.js';

/**
 * What the program counts about itself; docs/operating.md describes every metric. No key, name or identifier ever becomes a
 * label, and every label has a bounded set of values. Durations are in seconds.
 */
export interface Metrics extends LimiterMetrics {
  /** One HTTP request answered; 499 stands for a client that went away before its answer. */
  observeHttp(route: string, method: string, status: number, seconds: number): void;
  /** One GraphQL operation answered. */
  observeOperation(type: string, outcome: OperationOutcome, seconds: number): void;
  /** One request refused because too many others are in progress. */
  countOverload(route: string): void;
  /** Begins to say how many HTTP requests are in progress. */
  watchRequests(count: () => number): void;
  /** Begins to measure a database; undefined if nobody wants to know. */
  watchDatabase(connections: (() => DatabaseConnections) | undefined): StatementMetrics | undefined;
  /** Begins to measure what is asked of another store; undefined if nobody wants to know. */
  watchUpstream(state: () => UpstreamState): UpstreamMetrics | undefined;
  /** The Prometheus text. */
  render(): Promise<string>;
  readonly contentType: string;
}

/**
 * `ok`: data without errors. `error`: data with errors that the request is the reason of. `failed`: something of ours, or
 * the upstream, did not work. `refused`: not run. `cancelled`: the client went away.
 */
export type OperationOutcome = 'ok' | 'error' | 'failed' | 'refused' | 'cancelled';

/** https://opentelemetry.io/docs/specs/semconv/http/http-metrics/ */
const METHODS: ReadonlySet<string> = new Set([
  'GET',
  'POST',
  'OPTIONS',
  'HEAD',
  'PUT',
  'DELETE',
  'PATCH',
  'CONNECT',
  'TRACE',
]);
const CLIENT_GONE = 499;

export interface MetricsOptions {
  /** The plans, and the routes that may be refused for overload: what is counted of them begins at zero. */
  readonly plans: readonly string[];
  readonly overloadRoutes: readonly string[];
}

/** Makes a registry of its own, so that two programs in one process do not mix their numbers. */
export function createMetrics({ plans, overloadRoutes }: MetricsOptions): Metrics {
  const registry = new Registry();
  registerProcessMetrics(registry);
  const http = new Family((route: string, method: string, status: number) => {
    const failure = status === CLIENT_GONE ? 'cancelled' : status >= 500 ? String(status) : undefined;
    return new Durations({
      http_route: route,
      http_request_method: method,
      http_response_status_code: String(status),
      url_scheme: 'http',
      ...toErrorType(failure),
    });
  }).register(registry, 'histogram', 'http_server_request_duration_seconds', 'Duration of HTTP requests');
  const operations = new Family(
    (type: string, outcome: string) => new Durations({ graphql_operation_type: type, outcome }),
  ).register(registry, 'histogram', 'graphql_server_operation_duration_seconds', 'Duration of GraphQL operations');
  const overloads = new Family((route: string) => new Count({ http_route: route })).register(
    registry,
    'counter',
    'http_server_overload_refusals_total',
    'HTTP requests refused because too many others were in progress',
  );
  for (const route of overloadRoutes) overloads.find(route);
  return {
    observeHttp: (route, method, status, seconds) =>
      http.find(route, METHODS.has(method) ? method : '_OTHER', status).add(seconds),
    observeOperation: (type, outcome, seconds) => operations.find(type, outcome).add(seconds),
    countOverload: (route) => overloads.find(route).add(1),
    ...createLimiterMetrics(registry, plans),
    watchRequests(count) {
      new Gauge({
        name: 'http_server_active_requests',
        help: 'HTTP requests in progress',
        registers: [registry],
        collect() {
          this.set(count());
        },
      });
    },
    watchDatabase: (connections) => createStatementMetrics(registry, connections),
    watchUpstream: (state) => createUpstreamMetrics(registry, state),
    render: () => registry.metrics(),
    contentType: registry.contentType,
  };
}
