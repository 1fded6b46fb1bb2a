import { STATUS_CODES } from 'node:http';
import { Gauge, type Registry } from 'prom-client';
import { Durations, Family, toErrorType, type Labels } from './series.js';

/** The pool of a database server. */
export interface DatabaseConnections {
  readonly used: number;
  readonly idle: number;
  /** Statements that wait for a connection. */
  readonly waiting: number;
  readonly max: number;
}

export interface StatementMetrics {
  /** One SQL statement answered; `failure` says what went wrong, in one of few words. */
  observe(name: string, failure: string | undefined, seconds: number): void;
}

/** What is under way to another store. */
export interface UpstreamState {
  /** Connections with a request on them. */
  readonly active: number;
  readonly idle: number;
  /** Requests that wait for a connection. */
  readonly waiting: number;
  /** True while the upstream is left alone because it keeps failing. */
  readonly isLeftAlone: boolean;
}

export interface UpstreamMetrics {
  /** One request to the upstream ended, with a status or else in one of few words why there is none. */
  readonly observe: (method: string, outcome: number | string, seconds: number) => void;
}

const DATABASE = { db_system_name: 'postgresql' };
const POOL = { db_client_connection_pool_name: 'postgresql' };

/** Makes the metrics of a database, and of its connections where it has a pool. */
export function createStatementMetrics(
  registry: Registry,
  connections: (() => DatabaseConnections) | undefined,
): StatementMetrics {
  const statements = new Family(
    (name: string, failure: string | undefined) =>
      new Durations({ db_query_summary: name, ...DATABASE, ...toErrorType(failure) }),
  ).register(registry, 'histogram', 'db_client_operation_duration_seconds', 'Duration of SQL statements');
  if (connections) registerPool(registry, connections);
  return { observe: (name, failure, seconds) => statements.find(name, failure).add(seconds) };
}

function registerPool(registry: Registry, connections: () => DatabaseConnections): void {
  const registers = [registry];
  const labelNames = Object.keys(POOL);
  new Gauge({
    name: 'db_client_connection_count',
    help: 'Connections of the database pool',
    labelNames: [...labelNames, 'db_client_connection_state'],
    registers,
    collect() {
      const { used, idle } = connections();
      this.set({ ...POOL, db_client_connection_state: 'used' }, used);
      this.set({ ...POOL, db_client_connection_state: 'idle' }, idle);
    },
  });
  new Gauge({
    name: 'db_client_connection_pending_requests',
    help: 'Statements that wait for a connection of the database pool',
    labelNames,
    registers,
    collect() {
      this.set(POOL, connections().waiting);
    },
  });
  new Gauge({
    name: 'db_client_connection_max',
    help: 'Connections that the database pool may have',
    labelNames,
    registers,
  }).set(POOL, connections().max);
}

/** Makes the metrics of what is asked of another store. */
export function createUpstreamMetrics(registry: Registry, state: () => UpstreamState): UpstreamMetrics {
  const registers = [registry];
  const requests = new Family((method: string, outcome: number | string) => {
    const status: Labels = typeof outcome === 'number' ? { http_response_status_code: String(outcome) } : {};
    const failure = typeof outcome === 'string' || outcome >= 400 ? String(outcome) : undefined;
    return new Durations({ http_request_method: method, ...status, ...toErrorType(failure) });
  }).register(
    registry,
    'histogram',
    'http_client_request_duration_seconds',
    'Duration of requests to the upstream, the wait for a connection included',
  );
  new Gauge({
    name: 'http_client_open_connections',
    help: 'Connections to the upstream',
    labelNames: ['http_connection_state'],
    registers,
    collect() {
      const { active, idle } = state();
      this.set({ http_connection_state: 'active' }, active);
      this.set({ http_connection_state: 'idle' }, idle);
    },
  });
  new Gauge({
    name: 'http_client_active_requests',
    help: 'Requests to the upstream in progress, those that wait for a connection included',
    registers,
    collect() {
      const { active, waiting } = state();
      this.set(active + waiting);
    },
  });
  new Gauge({
    name: 'upstream_left_alone',
    help: 'Whether the upstream is not asked for now because it keeps failing (1) or is (0)',
    registers,
    collect() {
      this.set(state().isLeftAlone ? 1 : 0);
    },
  });
  return {
    observe: (method, outcome, seconds) =>
      requests
        .find(method, typeof outcome === 'number' && !(outcome in STATUS_CODES) ? '_OTHER' : outcome)
        .add(seconds),
  };
}
