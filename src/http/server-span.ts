import { CLIENT_GONE, toKnownMethod, toServerFailure } from '../observability/metrics.js';
import { endSpan, findTraceId, startServerSpan, type Tracer } from '../observability/tracing.js';
import type { RequestContext } from './request-context.js';

/** Starts the span of a request. If the request is part of a trace, its log line contains the trace's id. */
export function startRequestSpan(context: RequestContext, tracer: Tracer): void {
  context.span = startServerSpan(tracer, context.request.headers);
  const traceId = findTraceId(context.span);
  if (traceId !== undefined) context.logged.trace_id = traceId;
}

/**
 * Ends the span of a request. Spans of probes are dropped, because they would outnumber all others.
 * Attributes: https://opentelemetry.io/docs/specs/semconv/http/http-spans/
 * @param status - 499 if the client disconnected
 */
export function endRequestSpan(
  { span, request, requestId, method, path, route }: RequestContext,
  status: number,
): void {
  if (!span.isRecording() || route === 'probe') return;
  const knownMethod = toKnownMethod(method);
  const name = knownMethod === method ? method : 'HTTP';
  const hasRoute = route !== 'other';
  span.updateName(hasRoute ? `${name} ${route}` : name);
  const attributes = {
    'http.request.method': knownMethod,
    'http.request.method_original': knownMethod === method ? undefined : method,
    'http.route': hasRoute ? route : undefined,
    'http.response.status_code': status === CLIENT_GONE ? undefined : status,
    'url.scheme': 'http',
    'url.path': path,
    'server.address': request.socket.localAddress,
    'server.port': request.socket.localPort,
    'animal_store.request_id': requestId,
  };
  endSpan(span, attributes, toServerFailure(status));
}
