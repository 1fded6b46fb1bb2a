import { STATUS_CODES } from 'node:http';
import { performance } from 'node:perf_hooks';
import { collectDefaultMetrics, Counter, Gauge, Histogram, Registry } from 'prom-client';
import { readPackage, SERVICE_NAME } from './package.js';

/**
 * - `ok`: data without errors
 * - `error`: data with errors that the request caused
 * - `failed`: the program, its database or the upstream failed
 * - `refused`: the operation did not run
 * - `cancelled`: the client disconnected
 */
export type OperationOutcome = 'ok' | 'error' | 'failed' | 'refused' | 'cancelled';

/** https://opentelemetry.io/docs/specs/semconv/http/http-metrics/ */
const METHODS: ReadonlySet<string> = new Set('GET POST QUERY OPTIONS HEAD PUT DELETE PATCH CONNECT TRACE'.split(' '));

/** Returns the method's name in metrics and spans. Unknown methods share one name, so that labels stay bounded. */
export function toKnownMethod(method: string): string {
  return METHODS.has(method) ? method : '_OTHER';
}

/** Returns the kind of failure for a status. Undefined if the server did not fail. */
export function toServerFailure(status: number): string | undefined {
  if (status === CLIENT_GONE) return 'cancelled';
  return status >= 500 ? String(status) : undefined;
}

/** The status recorded if the client disconnected before its response was complete. */
export const CLIENT_GONE = 499;

const UNKNOWN_PLAN = 'unknown';
const REFUSALS = ['rate_limited', 'key_banned', 'operation_too_large'];

/** `in_process`: no Redis is configured. `per_instance`: Redis is configured, but unavailable. */
const LIMITER_MODES = ['in_process', 'shared', 'per_instance'] as const;

const SHARING_FAILURES = ['unreachable', 'timeout', 'closed', 'error', 'garbage'] as const;
export type SharingFailure = (typeof SHARING_FAILURES)[number];
/** The state of the limits that instances share through Redis. */
export type SharingMetrics = ReturnType<Metrics['watchSharing']>;

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

/**
 * The program's metrics, which docs/operating.md describes. No key, name or identifier ever becomes a label, and every
 * label has a bounded set of values. Durations are in seconds.
 */
export type Metrics = ReturnType<typeof createMetrics>;

/** Creates the metrics in their own registry, so that two programs in one process do not mix their numbers. */
export function createMetrics(knownPlans: readonly string[]) {
  const registry = new Registry();
  const instruments = createInstruments(registry);
  const { durations, counter, gauge, total } = instruments;
  addProcessMetrics(registry, instruments);
  const requests = durations('http_server_request_duration_seconds', 'Duration of HTTP requests', [
    'http_route',
    'http_request_method',
    'http_response_status_code',
    'url_scheme',
    'error_type',
  ]);
  const operations = durations('graphql_server_operation_duration_seconds', 'Duration of GraphQL operations', [
    'graphql_operation_type',
    'graphql_operation_name',
    'outcome',
  ]);
  const overloads = counter(
    'http_server_overload_refusals_total',
    'HTTP requests refused because they were late, or too many of their caller were',
    [{ http_route: '/graphql' }, { http_route: '/v1/pets' }],
  );
  const untrusted = counter(
    'graphql_server_untrusted_documents_total',
    'GraphQL operations whose documents are not trusted',
    [{ outcome: 'refused' }, { outcome: 'reported' }],
  );
  const databaseCalls = durations(
    'db_client_operation_duration_seconds',
    'Duration of SQL statements and calls to Redis',
    ['db_query_summary', 'db_system_name', 'error_type'],
  );
  let limiterMode: (typeof LIMITER_MODES)[number] = 'in_process';
  gauge('limiter_shared', 'Whether limits are shared through Redis (1) or counted by this instance alone (0)', () =>
    Number(limiterMode === 'shared'),
  );
  gauge(
    'limiter_mode',
    'How limits are counted: 1 for the mode in force',
    LIMITER_MODES.map((mode) => [{ mode }, () => Number(mode === limiterMode)]),
  );
  const plans = [...knownPlans, UNKNOWN_PLAN].map((plan) => ({ plan }));
  const admissions = counter('limiter_admissions_total', 'GraphQL operations and REST requests admitted', plans);
  const admittedRequests = counter(
    'limiter_admitted_requests_total',
    'Requests that the admitted operations cost',
    plans,
  );
  const refusals = counter('limiter_refusals_total', 'GraphQL operations and HTTP requests refused by the limits', [
    ...plans.flatMap(({ plan }) => REFUSALS.map((reason) => ({ plan, reason }))),
    { plan: UNKNOWN_PLAN, reason: 'address' },
  ]);
  return {
    observeHttp(route: string, method: string, status: number, seconds: number): void {
      const labels = {
        http_route: route,
        http_request_method: toKnownMethod(method),
        http_response_status_code: status,
        url_scheme: 'http',
        ...toErrorType(toServerFailure(status)),
      };
      requests.observe(labels, seconds);
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
    /** Counts operations and REST requests that were admitted, with the requests that they cost, or refused. */
    admissions: {
      admitted(plan = UNKNOWN_PLAN, cost: number): void {
        admissions.inc({ plan });
        admittedRequests.inc({ plan }, cost);
      },
      refused(plan = UNKNOWN_PLAN, reason: string): void {
        if (reason === 'address' || REFUSALS.includes(reason)) refusals.inc({ plan, reason });
      },
    },
    gauge,
    total,
    watchPool: (connections: () => DatabaseConnections): void => watchPool(instruments, connections),
    watchUpstream: (state: () => UpstreamState) => watchUpstream(instruments, state),
    /** Starts to report the sharing through Redis. */
    watchSharing() {
      const failures = counter(
        'redis_failures_total',
        'Failures of Redis, including attempts to reach it again',
        SHARING_FAILURES.map((reason) => ({ reason })),
      );
      limiterMode = 'per_instance';
      return {
        setShared(isShared: boolean): void {
          limiterMode = isShared ? 'shared' : 'per_instance';
        },
        countFailure: (reason: SharingFailure): void => failures.inc({ reason }),
      };
    },
    render: (): Promise<string> => registry.metrics(),
    contentType: registry.contentType,
  };
}

/** Memory, CPU, event loop, garbage collection and the version of the program. */
function addProcessMetrics(registry: Registry, { gauge }: Instruments): void {
  collectDefaultMetrics({ register: registry });
  // Gauges that Prometheus would take for counters, because of their names. The sums over `type` are the same.
  for (const what of ['handles', 'requests', 'resources']) registry.removeSingleMetric(`nodejs_active_${what}_total`);
  new Counter({
    name: 'nodejs_eventloop_time_seconds_total',
    help: 'Time that the event loop was active, and idle',
    labelNames: ['nodejs_eventloop_state'],
    registers: [registry],
    collect() {
      const { active, idle } = performance.eventLoopUtilization();
      this.reset();
      this.inc({ nodejs_eventloop_state: 'active' }, active / 1_000);
      this.inc({ nodejs_eventloop_state: 'idle' }, idle / 1_000);
    },
  });
  // The labels are the resource's attributes:
  // https://opentelemetry.io/docs/specs/otel/compatibility/prometheus_and_openmetrics/
  const build = {
    service_name: SERVICE_NAME,
    service_version: readPackage().version,
    process_runtime_name: 'nodejs',
    process_runtime_version: process.versions.node,
  };
  gauge('target_info', 'Build info: the version of the program and of Node; always 1', [[build, () => 1]]);
}

function watchPool({ gauge }: Instruments, connections: () => DatabaseConnections): void {
  const pool = { db_client_connection_pool_name: 'postgresql' };
  gauge('db_client_connections', 'Connections of the database pool', [
    [{ ...pool, db_client_connection_state: 'used' }, () => connections().used],
    [{ ...pool, db_client_connection_state: 'idle' }, () => connections().idle],
  ]);
  gauge('db_client_connection_pending_requests', 'Statements that wait for a connection', [
    [pool, () => connections().waiting],
  ]);
  gauge('db_client_connection_max', 'Connections that the database pool may have', [[pool, () => connections().max]]);
}

function watchUpstream({ durations, gauge }: Instruments, state: () => UpstreamState) {
  const requests = durations(
    'http_client_request_duration_seconds',
    'Duration of requests to the upstream, including the wait for a connection',
    ['http_request_method', 'http_response_status_code', 'error_type'],
  );
  gauge('http_client_open_connections', 'Connections to the upstream', [
    [{ http_connection_state: 'active' }, () => state().active],
    [{ http_connection_state: 'idle' }, () => state().idle],
  ]);
  gauge(
    'http_client_active_requests',
    'Requests to the upstream in progress, including those that wait for a connection',
    () => state().active + state().waiting,
  );
  gauge('upstream_breaker_open', '1 while the breaker is open: the upstream keeps failing and gets no requests', () =>
    Number(state().isBreakerOpen),
  );
  /** @param outcome - the HTTP status or, if there was no response, the reason from a small set of words */
  return (method: string, outcome: number | string, seconds: number): void =>
    requests.observe({ http_request_method: method, ...toOutcomeLabels(outcome) }, seconds);
}

function toOutcomeLabels(outcome: number | string) {
  if (typeof outcome === 'string') return toErrorType(outcome);
  // An upstream could send any status, and each would be a new label.
  if (!(outcome in STATUS_CODES)) return toErrorType('_OTHER');
  return { http_response_status_code: outcome, ...toErrorType(outcome >= 400 ? String(outcome) : undefined) };
}

type Labels = Readonly<Record<string, string>>;

type Instruments = ReturnType<typeof createInstruments>;

/**
 * Upper bounds of the buckets, in seconds: those that the semantic conventions recommend for HTTP and for databases,
 * and smaller ones, because most requests take less than 5 ms.
 */
const BUCKETS = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10];

function createInstruments(registry: Registry) {
  const registers = [registry];
  return {
    durations: <Name extends string>(name: string, help: string, labelNames: Name[]) =>
      new Histogram({ name, help, labelNames, buckets: BUCKETS, registers }),

    /** Creates a counter. Its label values in `zeros` start at zero, so that their first event shows as an increase. */
    counter: (name: string, help: string, zeros: readonly Labels[]) => {
      const counter = new Counter({ name, help, labelNames: Object.keys(zeros[0] ?? {}), registers });
      for (const zero of zeros) counter.inc(zero, 0);
      return counter;
    },

    /** Creates a counter of what something else counts. Each scrape calls the function for its value. */
    total: (name: string, help: string, read: () => number): void => {
      new Counter({
        name,
        help,
        registers,
        collect() {
          this.reset();
          this.inc(read());
        },
      });
    },

    /** Creates a gauge. Each scrape calls the functions for the values, of which several are told apart by labels. */
    gauge: (name: string, help: string, read: (() => number) | readonly (readonly [Labels, () => number])[]): void => {
      const series = typeof read === 'function' ? [[{}, read] as const] : read;
      new Gauge({
        name,
        help,
        labelNames: Object.keys(series[0]?.[0] ?? {}),
        registers,
        collect() {
          for (const [labels, read] of series) this.set(labels, read());
        },
      });
    },
  };
}

/** Returns the label `error_type`, which only failures have. prom-client would write `undefined` as text. */
function toErrorType(failure: string | undefined): { error_type?: string } {
  return failure === undefined ? {} : { error_type: failure };
}
