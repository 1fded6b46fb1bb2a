import { endSpan, joinSpans, startSpan, toTraceHeaders, type Span, type Tracer } from '../observability/tracing.js';
import { parseBaseUrl } from './connections.js';
import type { Outcome } from './exchange.js';

/** The span of one attempt, which includes the wait for a connection. */
export interface UpstreamSpan {
  /** The headers that let the upstream continue the trace. */
  readonly headers: Readonly<Record<string, string>> | undefined;
  /** Links the span of another call that waits for the same request. */
  addLink(span: Span): void;
  end(outcome: Outcome): void;
}

/**
 * Starts the span of an attempt.
 * @param waiting - the recorded spans of the calls that wait for the request, at least one
 * @param retries - the number of earlier attempts
 */
export type StartUpstreamSpan = (
  request: { readonly method: string; readonly path: string },
  waiting: readonly Span[],
  retries: number,
) => UpstreamSpan;

/** @param url - the store's base address */
export function createUpstreamSpans(tracer: Tracer, url: string): StartUpstreamSpan {
  const { protocol, hostname, port } = new URL(url);
  const { origin, basePath } = parseBaseUrl(url);
  return ({ method, path }, waiting, retries) => {
    const template = basePath + (path.startsWith('/pets/') ? '/pets/{petId}' : '/pets');
    const span = startSpan(tracer, 'client', `${method} ${template}`, joinSpans(waiting), {
      'server.address': hostname,
      'server.port': Number(port || (protocol === 'https:' ? 443 : 80)),
      'http.request.method': method,
      'url.full': origin + basePath + path,
      'url.template': template,
      ...(retries > 0 && { 'http.request.resend_count': retries }),
    });
    return {
      headers: toTraceHeaders(span),
      addLink: (other) => span.addLink({ context: other.spanContext() }),
      end(outcome) {
        if (outcome.kind !== 'answer') { endSpan(span, {}, outcome.kind); return; }
        const { status } = outcome;
        endSpan(span, { 'http.response.status_code': status }, status >= 400 ? String(status) : undefined);
      },
    };
  };
}
