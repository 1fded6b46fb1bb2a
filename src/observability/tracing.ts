import {
  defaultTextMapGetter,
  defaultTextMapSetter,
  INVALID_SPAN_CONTEXT,
  isSpanContextValid,
  ROOT_CONTEXT,
  SpanKind,
  SpanStatusCode,
  trace,
  type Attributes,
  type Link,
  type Span,
  type Tracer,
} from '@opentelemetry/api';
import { W3CTraceContextPropagator } from '@opentelemetry/core';
import type { RequestContext } from '../http/request-context.js';
import { CLIENT_GONE, toKnownMethod, toServerFailure } from './metrics.js';
import { SERVICE_NAME } from './package.js';

export type { Attributes, Span, Tracer } from '@opentelemetry/api';

export interface Tracing {
  readonly tracer: Tracer;
  /** Exports the remaining spans within the given time, in milliseconds. */
  close(timeoutMs: number): Promise<void>;
}

/** OpenTelemetry's no-op tracer, used if tracing is off. Its spans record nothing, but pass on the client's trace. */
export const NO_TRACING: Tracing = { tracer: trace.getTracer(SERVICE_NAME), close: () => Promise.resolve() };

export const NO_SPAN: Span = trace.wrapSpanContext(INVALID_SPAN_CONTEXT);

export interface SpanParent {
  /** Absent for work that belongs to no request. */
  readonly span?: Span | undefined;
  /** The spans of other requests that need the same work. */
  readonly links?: readonly Link[] | undefined;
}

const PROPAGATOR = new W3CTraceContextPropagator();

/** Starts the span of a request. If its headers name a trace, the span becomes part of it, and the log line has its id. */
export function startRequestSpan(context: RequestContext, tracer: Tracer): void {
  const parent = PROPAGATOR.extract(ROOT_CONTEXT, context.request.headers, defaultTextMapGetter);
  context.span = tracer.startSpan('HTTP', { kind: SpanKind.SERVER }, parent);
  const traceId = findTraceId(context.span);
  if (traceId !== undefined) context.logged.trace_id = traceId;
}

/**
 * Ends the span of a request. Spans of probes are dropped, because they would outnumber all others.
 * Attributes: https://opentelemetry.io/docs/specs/semconv/http/http-spans/
 * @param status - 499 if the client disconnected
 */
export function endRequestSpan(context: RequestContext, status: number): void {
  const { span, request, requestId, method, path, route } = context;
  if (!span.isRecording() || route === 'probe') return;
  const knownMethod = toKnownMethod(method);
  const isKnown = knownMethod === method;
  const hasRoute = route !== 'other';
  const name = isKnown ? method : 'HTTP';
  span.updateName(hasRoute ? `${name} ${route}` : name);
  const attributes = {
    'http.request.method': knownMethod,
    'http.request.method_original': isKnown ? undefined : method,
    'http.route': hasRoute ? route : undefined,
    'http.response.status_code': status === CLIENT_GONE ? undefined : status,
    'url.scheme': 'http',
    'url.path': context.withhold(path),
    'server.address': request.socket.localAddress,
    'server.port': request.socket.localPort,
    'animal_store.request_id': requestId,
  };
  endSpan(span, attributes, toServerFailure(status));
}

/**
 * Starts the span of a part of a request. Callers check the parent's `isRecording()` first, so that requests that are
 * not recorded stay cheap. The kind `client` is for requests to other servers.
 */
export function startSpan(
  tracer: Tracer,
  kind: 'client' | 'internal',
  name: string,
  { span, links = [] }: SpanParent,
  attributes: Attributes = {},
): Span {
  const context = span ? trace.setSpan(ROOT_CONTEXT, span) : ROOT_CONTEXT;
  const spanKind = kind === 'client' ? SpanKind.CLIENT : SpanKind.INTERNAL;
  return tracer.startSpan(name, { kind: spanKind, attributes, links: [...links] }, context);
}

/** @param error - the kind of failure; absent if the work succeeded */
export function endSpan(span: Span, attributes: Attributes, error?: string): void {
  span.setAttributes(attributes);
  if (error !== undefined) {
    span.setAttribute('error.type', error);
    span.setStatus({ code: SpanStatusCode.ERROR });
  }
  span.end();
}

/**
 * Returns the parent of work that several requests share: the first span that is recorded, with links to the others.
 * Without a recorded span, there is no parent.
 */
export function joinSpans(spans: readonly (Span | undefined)[]): SpanParent {
  const recorded = spans.filter((span): span is Span => span?.isRecording() ?? false);
  const [span, ...others] = new Set(recorded);
  return span ? { span, links: others.map((other) => ({ context: other.spanContext() })) } : {};
}

/** Undefined if the span is part of no trace. */
function findTraceId(span: Span): string | undefined {
  const context = span.spanContext();
  return isSpanContextValid(context) ? context.traceId : undefined;
}

/** Returns the headers that let another service continue the trace; undefined if the span is part of no trace. */
export function toTraceHeaders(span: Span | undefined): Readonly<Record<string, string>> | undefined {
  if (!span || findTraceId(span) === undefined) return undefined;
  const headers: Record<string, string> = {};
  PROPAGATOR.inject(trace.setSpan(ROOT_CONTEXT, span), headers, defaultTextMapSetter);
  return headers;
}
