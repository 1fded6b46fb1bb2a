import { collectDefaultMetrics, Counter, Histogram, Registry } from 'prom-client';

/** What the program counts about itself. No key, name or identifier ever becomes a label. */
export interface Metrics {
  /** One HTTP request answered, in seconds. */
  observeHttp(route: string, method: string, status: number, seconds: number): void;
  /** One GraphQL operation answered. */
  countOperation(type: string, outcome: 'ok' | 'error' | 'refused'): void;
  /** One request refused because too many others are in progress. */
  countOverload(route: string): void;
  /** The Prometheus text. */
  render(): Promise<string>;
  readonly contentType: string;
}

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
    countOverload: (route) => overloads.inc({ http_route: route }),
    render: () => registry.metrics(),
    contentType: registry.contentType,
  };
}
