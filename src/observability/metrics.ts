import { STATUS_CODES } from 'node:http';
import { totalmem } from 'node:os';
import { collectDefaultMetrics, Counter, exponentialBuckets, Gauge, Histogram, Registry } from 'prom-client';
import { VERSION } from './package.js';

const SHARING_FAILURES = ['unreachable', 'timeout', 'closed', 'error', 'garbage'] as const;
export type SharingFailure = (typeof SHARING_FAILURES)[number];

/** `waiting` are the statements that wait for a connection. */
export type DatabaseConnections = Readonly<Record<'used' | 'idle' | 'waiting' | 'max', number>>;

/** The status if the client disconnected before its response was complete. */
export const CLIENT_GONE = 499;

/** The others share one name: https://opentelemetry.io/docs/specs/semconv/http/http-metrics/ */
const METHODS = 'GET POST QUERY OPTIONS HEAD PUT DELETE PATCH CONNECT TRACE'.split(' ');
const OTHER = '_OTHER';

export type Metrics = ReturnType<typeof createMetrics>;

/**
 * Creates the metrics of docs/operating.md. The values of a label are bounded: no key, address or name that a client
 * makes up. An empty value is the same as no label. Durations are in seconds.
 */
export function createMetrics(knownPlans: readonly string[]) {
  const registry = new Registry();
  const registers = [registry];
  // From half a millisecond to eight seconds.
  const buckets = exponentialBuckets(0.0005, 2, 15);
  const gauge = collect(Gauge);
  const total = collect(Counter);
  const requests = durations(
    'http_server_request_duration_seconds',
    'Duration of HTTP requests',
    'http_route http_request_method http_response_status_code error_type',
  );
  const operations = durations(
    'graphql_server_operation_duration_seconds',
    'Duration of GraphQL operations',
    'graphql_operation_type graphql_operation_name outcome',
  );
  const databaseCalls = durations(
    'db_client_operation_duration_seconds',
    'Duration of SQL statements and calls to Redis',
    'db_query_summary db_system_name error_type',
  );
  const untrusted = counter('graphql_server_untrusted_documents_total', 'Operations with untrusted documents', {
    outcome: ['refused', 'reported'],
  });
  const plan = [...knownPlans, 'unknown'];
  const costs = counter('limiter_admitted_requests_total', 'Requests that the admitted operations cost', { plan });
  const refusals = counter('limiter_refusals_total', 'Operations and REST requests refused by the limits', {
    plan,
    reason: ['rate_limited', 'key_banned', 'operation_too_large', 'address'],
  });
  const rotations = counter('key_rotations_total', 'Secrets that their holders replaced over REST', {});
  const readLoop = () => performance.eventLoopUtilization().active / 1_000;
  total('nodejs_eventloop_active_seconds_total', 'Time that the event loop was active', readLoop);
  gauge('animal_store_gateway_info', 'The version of the program; always 1', () => ({ [VERSION]: 1 }), 'version');
  collectDefaultMetrics({ register: registry });
  const memoryLimit = Math.min(process.constrainedMemory() || Infinity, totalmem());
  gauge('process_memory_limit_bytes', 'The memory that the container, or the machine, has', () => memoryLimit);
  // Gauges that are named like counters.
  for (const what of ['handles', 'requests', 'resources']) registry.removeSingleMetric(`nodejs_active_${what}_total`);

  return {
    observeHttp(route: string, method: string, status: number, failure = '', seconds: number): void {
      const labels = {
        http_route: route,
        http_request_method: METHODS.includes(method) ? method : OTHER,
        http_response_status_code: status,
        error_type: status >= 500 ? failure : '',
      };
      requests.observe(labels, seconds);
    },
    /** @param name - if it belongs to a trusted document; names that clients make up would never end */
    observeOperation(type: string, outcome: string, seconds: number, name = ''): void {
      operations.observe({ graphql_operation_type: type, graphql_operation_name: name, outcome }, seconds);
    },
    /** @param failure - from a small set of words; undefined if there was none */
    observeDatabase(system: 'postgresql' | 'redis', name: string, failure = '', seconds: number): void {
      databaseCalls.observe({ db_query_summary: name, db_system_name: system, error_type: failure }, seconds);
    },
    countUntrusted: (outcome: 'refused' | 'reported'): void => untrusted.inc({ outcome }),
    countRotation: (): void => rotations.inc(),
    admissions: {
      admitted: (plan = 'unknown', cost: number): void => costs.inc({ plan }, cost),
      refused: (plan = 'unknown', reason: string): void => refusals.inc({ plan, reason }),
    },
    gauge,
    total,
    /** @returns the function that observes each request, with its HTTP status or a word that says why it has none */
    watchUpstream(requests: () => Record<'sent' | 'waiting', number>, isBreakerOpen: () => boolean) {
      const sent = durations(
        'http_client_request_duration_seconds',
        'Duration of requests to the upstream',
        'http_request_method http_response_status_code error_type',
      );
      gauge('http_client_active_requests', 'Requests to the upstream', requests, 'http_request_state');
      gauge('upstream_breaker_open', '1 while the upstream cannot be reached', () => Number(isBreakerOpen()));
      return (method: string, answer: number | string, seconds: number): void => {
        // An upstream could send any status.
        const outcome = typeof answer === 'string' || answer in STATUS_CODES ? answer : OTHER;
        const labels = {
          http_request_method: method,
          http_response_status_code: typeof outcome === 'number' ? outcome : '',
          error_type: typeof outcome === 'number' && outcome < 400 ? '' : outcome,
        };
        sent.observe(labels, seconds);
      };
    },
    watchSharing() {
      let isShared = false;
      gauge('limiter_shared', '1 while limits are shared, 0 while this instance counts alone', () => Number(isShared));
      const failures = counter('redis_failures_total', 'Failures of Redis, and of attempts to reach it again', {
        reason: SHARING_FAILURES,
      });
      return {
        setShared: (value: boolean): void => void (isShared = value),
        countFailure: (reason: SharingFailure): void => failures.inc({ reason }),
      };
    },
    registry,
  };

  /** @param labels - separated by spaces */
  function durations(name: string, help: string, labels: string) {
    return new Histogram({ name, help, labelNames: labels.split(' '), buckets, registers });
  }

  /** Each combination of the labels starts at zero, so that its first event shows as an increase. */
  function counter(name: string, help: string, labels: Readonly<Record<string, readonly string[]>>) {
    const metric = new Counter({ name, help, labelNames: Object.keys(labels), registers });
    let zeros: Record<string, string>[] = [{}];
    for (const [label, values] of Object.entries(labels))
      zeros = zeros.flatMap((zero) => values.map((value) => ({ ...zero, [label]: value })));
    for (const zero of zeros) metric.inc(zero, 0);
    return metric;
  }

  /** @returns the function that creates a metric, which each scrape reads: with a label, a number for each value */
  function collect(Metric: typeof Counter | typeof Gauge) {
    return (name: string, help: string, read: () => number | Record<string, number>, ...labelNames: string[]): void => {
      const metric = new Metric({
        ...{ name, help, registers, labelNames },
        collect() {
          metric.reset();
          const value = read();
          if (typeof value === 'number') metric.inc(value);
          else
            for (const [state, count] of Object.entries(value)) metric.inc({ [labelNames[0] as string]: state }, count);
        },
      });
    };
  }
}
