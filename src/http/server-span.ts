import type { Tracing } from '../observability/tracing.js';
import type { Exchange } from './exchange.js';

/** The methods that have a name of their own: https://opentelemetry.io/docs/specs/semconv/http/http-spans/ */
const METHODS: ReadonlySet<string> = new Set([
  'CONNECT',
  'DELETE',
  'GET',
  'HEAD',
  'OPTIONS',
  'PATCH',
  'POST',
  'PUT',
  'TRACE',
]);

/** Starts the span of a request that has come, and names its trace in the request's log line. */
export function startServerSpan(exchange: Exchange, tracing: Tracing): void {
  const span = tracing.startServerSpan(exchange.request.headers);
  exchange.span = span;
  exchange.logged.trace_id = span.traceId;
}

/**
 * Ends the span of a request. Those of probes are dropped: they would drown everything else.
 * @param status - 499 when the client went away
 */
export function endServerSpan({ span, request, requestId, method, path, route }: Exchange, status: number): void {
  if (!span || route === 'probe') return;
  const isKnown = METHODS.has(method);
  const name = isKnown ? method : 'HTTP';
  const isCancelled = status === 499;
  span.rename(route === 'other' ? name : `${name} ${route}`);
  span.end(
    {
      'http.request.method': isKnown ? method : '_OTHER',
      'http.request.method_original': isKnown ? undefined : method,
      'http.route': route === 'other' ? undefined : route,
      'http.response.status_code': isCancelled ? undefined : status,
      'url.scheme': 'http',
      'url.path': path,
      'server.address': request.socket.localAddress,
      'server.port': request.socket.localPort,
      'animal_store.request_id': requestId,
    },
    isCancelled ? 'cancelled' : status >= 500 ? String(status) : undefined,
  );
}
