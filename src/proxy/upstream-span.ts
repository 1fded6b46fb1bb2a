import { StoreError } from '../errors.js';
import { joinSpans, type Attributes, type Span } from '../observability/tracing.js';
import { UpstreamFailure, type Outcome } from './upstream-answer.js';

/** How spans tell where requests go. */
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
 * Starts the span of one attempt, the wait for a connection included.
 * @param askers - the spans of those who wait for it
 * @param retries - attempts before this one
 */
export function startUpstreamSpan(askers: readonly Span[], attributes: Attributes, retries: number): Span {
  const name = `${String(attributes['http.request.method'])} ${String(attributes['url.template'])}`;
  return joinSpans(askers).startChild('client', name, {
    ...attributes,
    'http.request.resend_count': retries > 0 ? retries : undefined,
  });
}

export function endUpstreamSpan(span: Span, outcome: Outcome): void {
  if (outcome instanceof Error) span.end({}, toErrorType(outcome));
  else {
    const { status } = outcome;
    span.end({ 'http.response.status_code': status }, status >= 400 ? String(status) : undefined);
  }
}

function toErrorType(error: Error): string {
  if (error instanceof UpstreamFailure) return error.kind;
  return error instanceof StoreError ? error.code : 'cancelled';
}
