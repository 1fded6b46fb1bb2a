import { endSpan, joinSpans, startSpan, type Attributes, type Span, type Tracer } from '../observability/tracing.js';
import type { Outcome } from './exchange.js';

/** Returns the span attributes of a request. */
export type DescribeUpstream = (method: string, path: string) => Attributes;

/** @param baseUrl - the store's base address */
export function createUpstreamDescription(baseUrl: string): DescribeUpstream {
  const { origin, protocol, hostname, port, pathname } = new URL(baseUrl);
  const base = pathname.replace(/\/+$/, '');
  const server = {
    'server.address': hostname,
    'server.port': Number(port || (protocol === 'https:' ? 443 : 80)),
  };
  return (method, path) => ({
    ...server,
    'http.request.method': method,
    'url.full': origin + base + path,
    'url.template': base + (path.startsWith('/pets/') ? '/pets/{petId}' : '/pets'),
  });
}

/**
 * Starts the span of one attempt, which includes the wait for a connection. Returns undefined if no waiting call is
 * recorded.
 * @param waiting - the spans of the waiting calls
 * @param retries - the number of earlier attempts
 */
export function startUpstreamSpan(
  tracer: Tracer,
  waiting: readonly (Span | undefined)[],
  describe: () => Attributes,
  retries: number,
): Span | undefined {
  const parent = joinSpans(waiting);
  if (!parent.span) return undefined;
  const attributes = describe();
  const name = `${String(attributes['http.request.method'])} ${String(attributes['url.template'])}`;
  return startSpan(tracer, 'client', name, parent, {
    ...attributes,
    'http.request.resend_count': retries > 0 ? retries : undefined,
  });
}

export function endUpstreamSpan(span: Span, outcome: Outcome): void {
  if (outcome.kind !== 'answer') return endSpan(span, {}, outcome.kind);
  const { status } = outcome;
  endSpan(span, { 'http.response.status_code': status }, status >= 400 ? String(status) : undefined);
}
