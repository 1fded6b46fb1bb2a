import type { HttpRequest } from './request.js';

const EXPOSED =
  'X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Reset, RateLimit, RateLimit-Policy, Retry-After, ' +
  'X-Request-Id, Deprecation, Sunset, Link, Location, ETag, Accept-Query';

const ALLOWED = [
  ...['Authorization', 'Content-Type', 'Idempotency-Key', 'If-None-Match', 'X-Request-Id'],
  ...['traceparent', 'tracestate', 'baggage', 'sentry-trace'],
  ...['MCP-Protocol-Version', 'Mcp-Method', 'Mcp-Name'],
];
/** Apollo's clients and the versions of Sandbox send different headers. */
const APOLLO_HEADER = /^(?:x-)?apollo(?:graphql)?-[a-z-]{1,64}$/i;

const APOLLO_SANDBOX = ['https://studio.apollographql.com', 'https://sandbox.embed.apollographql.com'];
const THIS_MACHINE = /^https?:\/\/(?:localhost|127\.0\.0\.1|\[::1\])(?::\d+)?$/;

const NO_HEADERS = {};

export type Cors = ReturnType<typeof createCors>;

/**
 * Decides which other origins may read responses.
 * @param origins - a `*` stands for one label; if undefined: Apollo Sandbox, and every page from this machine
 * @param furtherHeaders - request headers that pages may send, besides those that the program and its clients use
 */
export function createCors(origins: readonly string[] | undefined, furtherHeaders: readonly string[] = []) {
  const patterns = origins?.map(toPattern) ?? [THIS_MACHINE, ...APOLLO_SANDBOX.map(toPattern)];
  const allows = (origin: string): boolean => patterns.some((pattern) => pattern.test(origin));

  return {
    isPreflight: (request: HttpRequest): boolean =>
      request.method === 'OPTIONS' && request.header('access-control-request-method') !== undefined,
    /** Whether no page sent the request, or one that may read the response. */
    accepts(request: HttpRequest): boolean {
      const origin = request.header('origin');
      return origin === undefined || allows(origin);
    },
    headers(request: HttpRequest): Readonly<Record<string, string>> {
      const origin = request.header('origin');
      if (origin === undefined) return NO_HEADERS;
      if (!allows(origin)) return { Vary: 'Origin' };
      return { 'Access-Control-Allow-Origin': origin, 'Access-Control-Expose-Headers': EXPOSED, Vary: 'Origin' };
    },
    preflightHeaders(request: HttpRequest): Readonly<Record<string, string>> {
      if (!allows(request.header('origin') ?? '')) return NO_HEADERS;
      const requested = (request.header('access-control-request-headers') ?? '').split(',').map((name) => name.trim());
      const apollo = requested.filter((name) => APOLLO_HEADER.test(name));
      return {
        'Access-Control-Allow-Methods': 'GET, POST, QUERY, OPTIONS',
        'Access-Control-Allow-Headers': [...ALLOWED, ...furtherHeaders, ...apollo].join(', '),
        'Access-Control-Max-Age': '7200',
      };
    },
  };
}

function toPattern(origin: string): RegExp {
  const escaped = origin.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
  return new RegExp(`^${escaped.replace('\\*', '[a-z0-9_-]+')}$`);
}
