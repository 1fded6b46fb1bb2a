import type { RequestContext } from './request-context.js';

const EXPOSED =
  'X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Reset, RateLimit, RateLimit-Policy, Retry-After, ' +
  'X-Request-Id, Deprecation, Sunset, Link, Location, ETag, Accept-Query';

const ALLOWED =
  'Authorization, Content-Type, Idempotency-Key, If-None-Match, X-Request-Id, traceparent, tracestate, ' +
  'apollo-require-preflight, x-apollo-operation-name, x-apollo-operation-id, x-apollo-operation-type, ' +
  'x-apollo-cache-control, apollographql-client-name, apollographql-client-version, apollo-query-plan-experimental';

const APOLLO_SANDBOX = ['https://studio.apollographql.com', 'https://sandbox.embed.apollographql.com'];
const THIS_MACHINE = /^https?:\/\/(?:localhost|127\.0\.0\.1|\[::1\])(?::\d+)?$/;

const NO_HEADERS = {};

export type Cors = ReturnType<typeof createCors>;

/**
 * Decides which other origins may read responses.
 * @param origins - if undefined: Apollo Sandbox, and every page from this machine
 */
export function createCors(origins: readonly string[] | undefined) {
  const allows =
    origins === undefined
      ? (origin: string) => APOLLO_SANDBOX.includes(origin) || THIS_MACHINE.test(origin)
      : (origin: string) => origins.includes(origin);

  return {
    isPreflight: (context: RequestContext): boolean =>
      context.method === 'OPTIONS' && context.header('access-control-request-method') !== undefined,
    headers: (context: RequestContext): Record<string, string> => {
      const origin = context.header('origin');
      if (origin === undefined) return NO_HEADERS;
      if (!allows(origin)) return { Vary: 'Origin' };
      return { 'Access-Control-Allow-Origin': origin, 'Access-Control-Expose-Headers': EXPOSED, Vary: 'Origin' };
    },
    preflightHeaders: (context: RequestContext): Record<string, string> => {
      if (!allows(context.header('origin') ?? '')) return {};
      return {
        'Access-Control-Allow-Methods': 'GET, POST, QUERY, OPTIONS',
        'Access-Control-Allow-Headers': [ALLOWED, ...requestedApolloHeaders(context)].join(', '),
        'Access-Control-Max-Age': '7200',
        // A public page may send requests to this machine: https://wicg.github.io/private-network-access/
        ...(context.header('access-control-request-private-network') === 'true' && {
          'Access-Control-Allow-Private-Network': 'true',
        }),
      };
    },
  };
}

/** Versions of Sandbox send different headers, so every Apollo header that a preflight requests is allowed. */
function requestedApolloHeaders(context: RequestContext): readonly string[] {
  const requested = (context.header('access-control-request-headers') ?? '').split(',').map((name) => name.trim());
  return requested.filter((name) => /^(?:x-)?apollo(?:graphql)?-[a-z-]{1,64}$/i.test(name) && !ALLOWED.includes(name));
}
