import { endSpan, joinSpans, startSpan, type Span, type Tracer } from '../observability/tracing.js';
import { parseBaseUrl } from './connections.js';
import type { Outcome, UpstreamRequest } from './exchange.js';

export type StartUpstreamSpan = ReturnType<typeof createUpstreamSpans>;

/**
 * Creates the function that starts the span of one attempt, which includes the wait for a connection.
 * @param url - the store's base address
 */
export function createUpstreamSpans(tracer: Tracer, url: string) {
  const { protocol, hostname, port } = new URL(url);
  const { origin, basePath } = parseBaseUrl(url);
  /**
   * @param waiting - the recorded spans of the calls that wait for the request, at least one
   * @param retries - the number of earlier attempts
   */
  return ({ method, path }: UpstreamRequest, waiting: readonly Span[], retries: number): Span => {
    const pathTemplate = basePath + (path.startsWith('/pets/') ? '/pets/{petId}' : '/pets');
    return startSpan(tracer, 'client', `${method} ${pathTemplate}`, joinSpans(waiting), {
      'server.address': hostname,
      'server.port': Number(port || (protocol === 'https:' ? 443 : 80)),
      'http.request.method': method,
      'url.full': origin + basePath + path,
      'url.template': pathTemplate,
      ...(retries > 0 && { 'http.request.resend_count': retries }),
    });
  };
}

export function endUpstreamSpan(span: Span, outcome: Outcome): void {
  if (outcome.kind !== 'answer') return endSpan(span, {}, outcome.kind);
  const { status } = outcome;
  endSpan(span, { 'http.response.status_code': status }, status >= 400 ? String(status) : undefined);
}
