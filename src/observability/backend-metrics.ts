import { STATUS_CODES } from 'node:http';
import { Gauge, type Registry } from 'prom-client';
import { createDurations, toErrorType } from './durations.js';

/** The connections of a pool. */
export interface DatabaseConnections {
  readonly used: number;
  readonly idle: number;
  /** Statements that wait for a connection. */
  readonly waiting: number;
  readonly max: number;
}

export interface StatementMetrics {
  /**
   * Records one SQL statement.
   * @param failure - what went wrong, as one of a few words; undefined if nothing did
   */
  observe(name: string, failure: string | undefined, seconds: number): void;
}

/** The requests to another store just now. */
export interface UpstreamState {
  /** Connections with a request on them. */
  readonly active: number;
  readonly idle: number;
  /** Requests that wait for a connection. */
  readonly waiting: number;
  /** True while the program sends the upstream no requests because it keeps failing. */
  readonly isLeftAlone: boolean;
}

export interface UpstreamMetrics {
  /**
   * Records one request to the upstream.
   * @param outcome - its status, or one of a few words that say why it has none
   */
  readonly observe: (method: string, outcome: number | string, seconds: number) => void;
}

const POOL = { db_client_connection_pool_name: 'postgresql' };

/** Creates the metrics of a database, and of its connections if it has a pool. */
export function createStatementMetrics(
  registry: Registry,
  connections: (() => DatabaseConnections) | undefined,
): StatementMetrics {
  const statements = createDurations(registry, 'db_client_operation_duration_seconds', 'Duration of SQL statements', [
    'db_query_summary',
    'db_system_name',
    'error_type',
  ]);
  if (connections) registerPool(registry, connections);
  return {
    observe: (name, failure, seconds) =>
      statements.observe({ db_query_summary: name, db_system_name: 'postgresql', ...toErrorType(failure) }, seconds),
  };
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

/** Creates the metrics of the requests to another store. */
export function createUpstreamMetrics(registry: Registry, state: () => UpstreamState): UpstreamMetrics {
  const registers = [registry];
  const requests = createDurations(
    registry,
    'http_client_request_duration_seconds',
    'Duration of requests to the upstream, the wait for a connection included',
    ['http_request_method', 'http_response_status_code', 'error_type'],
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
      requests.observe({ http_request_method: method, ...toOutcomeLabels(outcome) }, seconds),
  };
}

function toOutcomeLabels(outcome: number | string) {
  if (typeof outcome === 'string') return toErrorType(outcome);
  // An upstream could send any status.
  if (!(outcome in STATUS_CODES)) return toErrorType('_OTHER');
  const status = { http_response_status_code: String(outcome) };
  return outcome >= 400 ? { ...status, error_type: String(outcome) } : status;
}
