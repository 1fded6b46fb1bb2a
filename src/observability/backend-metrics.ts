import { STATUS_CODES } from 'node:http';
import { toErrorType, type Instruments } from './prometheus.js';

export interface DatabaseConnections {
  readonly used: number;
  readonly idle: number;
  /** Statements that wait for a connection. */
  readonly waiting: number;
  readonly max: number;
}

export interface UpstreamState {
  /** Connections with a request on them. */
  readonly active: number;
  readonly idle: number;
  /** Requests that wait for a connection. */
  readonly waiting: number;
  readonly isBreakerOpen: boolean;
}

export function watchPool({ gauge }: Instruments, connections: () => DatabaseConnections): void {
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

export function createUpstreamMetrics({ durations, gauge }: Instruments, state: () => UpstreamState) {
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
  return {
    /** @param outcome - the HTTP status or, if there was no response, the reason from a small set of words */
    observe: (method: string, outcome: number | string, seconds: number): void =>
      requests.observe({ http_request_method: method, ...toOutcomeLabels(outcome) }, seconds),
  };
}

function toOutcomeLabels(outcome: number | string) {
  if (typeof outcome === 'string') return toErrorType(outcome);
  // An upstream could send any status, and each would be a new label.
  if (!(outcome in STATUS_CODES)) return toErrorType('_OTHER');
  return { http_response_status_code: outcome, ...toErrorType(outcome >= 400 ? String(outcome) : undefined) };
}
