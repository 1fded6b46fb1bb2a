import { STATUS_CODES } from 'node:http';
import { performance } from 'node:perf_hooks';
import { collectDefaultMetrics, Counter, Gauge, Histogram, Registry } from 'prom-client';
import { readPackage } from './package.js';

/** What docs/operating.md describes. */
export type OperationOutcome = 'ok' | 'error' | 'failed' | 'refused' | 'cancelled';

export type SharingFailure = 'unreachable' | 'timeout' | 'closed' | 'error' | 'garbage';

export interface DatabaseConnections {
  readonly used: number;
  readonly idle: number;
  /** Statements that wait for a connection. */
  readonly waiting: number;
  readonly max: number;
}

interface UpstreamState {
  /** Connections with a request on them. */
  readonly active: number;
  readonly idle: number;
  /** Requests that wait for a connection. */
  readonly waiting: number;
  readonly isBreakerOpen: boolean;
}

/** The status if the client disconnected before its response was complete. */
export const CLIENT_GONE = 499;

/** Unknown methods share one name: https://opentelemetry.io/docs/specs/semconv/http/http-metrics/ */
const METHODS: ReadonlySet<string> = new Set('GET POST QUERY OPTIONS HEAD PUT DELETE PATCH CONNECT TRACE'.split(' '));
const UNKNOWN = 'unknown';
const REFUSALS = ['rate_limited', 'key_banned', 'operation_too_large'];

/**
 * The program's metrics, which docs/operating.md describes. Every label has a bounded set of values: no key, address or
 * name that a client makes up. Durations are in seconds.
 */
export type Metrics = ReturnType<typeof createMetrics>;

/** Creates the metrics in their own registry, so that two programs in one process do not mix their numbers. */
export function createMetrics(knownPlans: readonly string[]) {
  const registry = new Registry();
  const { durations, counter, gauge, total } = createInstruments(registry);
  addProcessMetrics(registry, total);
  const requests = durations(
    'http_server_request_duration_seconds',
    'HTTP requests',
    'http_route http_request_method http_response_status_code error_type',
  );
  const operations = durations(
    'graphql_server_operation_duration_seconds',
    'GraphQL operations',
    'graphql_operation_type graphql_operation_name outcome',
  );
  const databaseCalls = durations(
    'db_client_operation_duration_seconds',
    'SQL statements and calls to Redis',
    'db_query_summary db_system_name error_type',
  );
  const overloads = counter(
    'http_server_overload_refusals_total',
    'HTTP requests refused because of overload',
    ['/graphql', '/v1/pets'].map((http_route) => ({ http_route })),
  );
  const untrusted = counter(
    'graphql_server_untrusted_documents_total',
    'Operations whose documents are not trusted',
    ['refused', 'reported'].map((outcome) => ({ outcome })),
  );
  const plans = [...knownPlans, UNKNOWN].map((plan) => ({ plan }));
  const admissions = counter('limiter_admissions_total', 'GraphQL operations and REST requests admitted', plans);
  const costs = counter('limiter_admitted_requests_total', 'Requests that the admitted operations cost', plans);
  const refusals = counter('limiter_refusals_total', 'GraphQL operations and HTTP requests refused by the limits', [
    ...plans.flatMap(({ plan }) => REFUSALS.map((reason) => ({ plan, reason }))),
    { plan: UNKNOWN, reason: 'address' },
  ]);

  return {
    observeHttp(route: string, method: string, status: number, seconds: number): void {
      const failure = status === CLIENT_GONE ? 'cancelled' : status >= 500 ? String(status) : undefined;
      const http_request_method = METHODS.has(method) ? method : '_OTHER';
      const labels = { http_route: route, http_request_method, http_response_status_code: status };
      requests.observe({ ...labels, ...toErrorType(failure) }, seconds);
    },
    /** @param name - if it belongs to a trusted document; names that clients make up would never end */
    observeOperation(type: string, outcome: OperationOutcome, seconds: number, name?: string): void {
      const labels = { graphql_operation_type: type, outcome };
      operations.observe(name === undefined ? labels : { ...labels, graphql_operation_name: name }, seconds);
    },
    /** @param failure - from a small set of words; undefined if there was none */
    observeDatabase(system: 'postgresql' | 'redis', name: string, failure: string | undefined, seconds: number): void {
      databaseCalls.observe({ db_query_summary: name, db_system_name: system, ...toErrorType(failure) }, seconds);
    },
    countUntrusted: (outcome: 'refused' | 'reported'): void => untrusted.inc({ outcome }),
    countOverload: (route: string): void => overloads.inc({ http_route: route }),
    admissions: {
      admitted(plan = UNKNOWN, cost: number): void {
        admissions.inc({ plan });
        costs.inc({ plan }, cost);
      },
      refused(plan = UNKNOWN, reason: string): void {
        if (reason === 'address' || REFUSALS.includes(reason)) refusals.inc({ plan, reason });
      },
    },
    gauge,
    total,
    watchPool(pool: () => DatabaseConnections): void {
      const states = (): object => ({ used: pool().used, idle: pool().idle });
      gauge('db_client_connections', 'Connections of the database pool', states, 'db_client_connection_state');
      gauge('db_client_connection_max', 'The most connections of the database pool', () => pool().max);
      gauge('db_client_connection_pending_requests', 'Statements waiting for a connection', () => pool().waiting);
    },
    /** @returns the function that observes each request, with its HTTP status or a word that says why it has none */
    watchUpstream(state: () => UpstreamState) {
      const sent = durations(
        'http_client_request_duration_seconds',
        'Requests to the upstream, with the wait for a connection',
        'http_request_method http_response_status_code error_type',
      );
      const states = (): object => ({ active: state().active, idle: state().idle });
      gauge('http_client_open_connections', 'Connections to the upstream', states, 'http_connection_state');
      const inProgress = (): number => state().active + state().waiting;
      gauge('http_client_active_requests', 'Requests to the upstream in progress or waiting', inProgress);
      gauge('upstream_breaker_open', '1 while the upstream fails and gets no requests', () =>
        Number(state().isBreakerOpen),
      );
      return (method: string, outcome: number | string, seconds: number): void =>
        sent.observe({ http_request_method: method, ...toOutcome(outcome) }, seconds);
    },
    watchSharing() {
      let isShared = false;
      const reasons: readonly SharingFailure[] = ['unreachable', 'timeout', 'closed', 'error', 'garbage'];
      const zeros = reasons.map((reason) => ({ reason }));
      const failures = counter('redis_failures_total', 'Failures of Redis, and of attempts to reach it again', zeros);
      gauge('limiter_shared', '1 while limits are shared, 0 while this instance counts alone', () => Number(isShared));
      return {
        setShared: (value: boolean): void => void (isShared = value),
        countFailure: (reason: SharingFailure): void => failures.inc({ reason }),
      };
    },
    render: (): Promise<string> => registry.metrics(),
    contentType: registry.contentType,
  };
}

/** Memory, CPU, event loop, garbage collection and the version of the program. */
function addProcessMetrics(registry: Registry, total: AddCollected): void {
  collectDefaultMetrics({ register: registry });
  // Gauges that Prometheus would take for counters, because of their names. The sums over `type` are the same.
  for (const what of ['handles', 'requests', 'resources']) registry.removeSingleMetric(`nodejs_active_${what}_total`);
  const readLoop = (): object => {
    const { active, idle } = performance.eventLoopUtilization();
    return { active: active / 1_000, idle: idle / 1_000 };
  };
  const help = 'Time that the event loop was active, and idle';
  total('nodejs_eventloop_time_seconds_total', help, readLoop, 'nodejs_eventloop_state');
  const { name, version } = readPackage();
  // https://opentelemetry.io/docs/specs/otel/compatibility/prometheus_and_openmetrics/
  const labels = {
    service_name: name,
    service_version: version,
    process_runtime_name: 'nodejs',
    process_runtime_version: process.versions.node,
  };
  new Gauge({
    name: 'target_info',
    help: 'The versions of the program and of Node; always 1',
    labelNames: Object.keys(labels) as (keyof typeof labels)[],
    registers: [registry],
  }).set(labels, 1);
}

type Labels = Readonly<Record<string, string>>;

/** @param read - called by each scrape. With a `label`, it returns a number for each value of the label. */
type AddCollected = (name: string, help: string, read: () => number | object, label?: string) => void;

/** Upper bounds in seconds: those of the semantic conventions, and smaller ones, because most requests take less. */
const BUCKETS = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10];

function createInstruments(registry: Registry) {
  const registers = [registry];
  const collect =
    (Metric: typeof Counter | typeof Gauge): AddCollected =>
    (name, help, read, label = '') => {
      const metric = new Metric({
        name,
        help,
        labelNames: label ? [label] : [],
        registers,
        collect() {
          metric.reset();
          const value = read();
          if (typeof value === 'number') metric.inc(value);
          else for (const [state, count] of Object.entries(value)) metric.inc({ [label]: state }, count as number);
        },
      });
    };
  return {
    /** @param labels - separated by spaces */
    durations: (name: string, what: string, labels: string) =>
      new Histogram({ name, help: `Duration of: ${what}`, labelNames: labels.split(' '), buckets: BUCKETS, registers }),
    /** @param zeros - the labels that start at zero, so that their first event shows as an increase */
    counter: (name: string, help: string, zeros: readonly Labels[]) => {
      const counter = new Counter({ name, help, labelNames: Object.keys(zeros[0] ?? {}), registers });
      for (const zero of zeros) counter.inc(zero, 0);
      return counter;
    },
    /** Creates a counter of what something else counts. */
    total: collect(Counter),
    gauge: collect(Gauge),
  };
}

function toOutcome(outcome: number | string) {
  if (typeof outcome === 'string') return toErrorType(outcome);
  // An upstream could send any status.
  if (!(outcome in STATUS_CODES)) return toErrorType('_OTHER');
  return { http_response_status_code: outcome, ...toErrorType(outcome >= 400 ? String(outcome) : undefined) };
}

/** The label that only failures have. prom-client would write `undefined` as text. */
function toErrorType(failure: string | undefined): { error_type?: string } {
  return failure === undefined ? {} : { error_type: failure };
}
