import type { Exchange } from './exchange.js';

const EXPOSED = [
  'X-RateLimit-Limit',
  'X-RateLimit-Remaining',
  'X-RateLimit-Reset',
  'RateLimit',
  'RateLimit-Policy',
  'Retry-After',
  'X-Request-Id',
  'Deprecation',
  'Sunset',
  'Link',
  'Location',
].join(', ');

const ALLOWED = [
  'Authorization',
  'Content-Type',
  'Idempotency-Key',
  'X-Request-Id',
  'traceparent',
  'tracestate',
  'apollo-require-preflight',
  'x-apollo-operation-name',
  'x-apollo-operation-id',
  'x-apollo-operation-type',
  'x-apollo-cache-control',
  'apollographql-client-name',
  'apollographql-client-version',
  'apollo-query-plan-experimental',
].join(', ');

const APOLLO_SANDBOX = ['https://studio.apollographql.com', 'https://sandbox.embed.apollographql.com'];
const THIS_MACHINE = /^https?:\/\/(?:localhost|127\.0\.0\.1|\[::1\])(?::\d+)?$/;

const NO_HEADERS = {};

/** Says which pages of other origins may read answers. */
export interface Cors {
  /** Tells whether a request is a preflight, which asks before it sends. */
  isPreflight(exchange: Exchange): boolean;
  /** The headers for any answer to a request. */
  headers(exchange: Exchange): Record<string, string>;
  /** The further headers of a preflight's answer. */
  preflightHeaders(exchange: Exchange): Record<string, string>;
}

/**
 * @param origins - the origins allowed; undefined: Apollo Sandbox and every page served from this machine
 */
export function createCors(origins: readonly string[] | undefined): Cors {
  const allows =
    origins === undefined
      ? (origin: string) => APOLLO_SANDBOX.includes(origin) || THIS_MACHINE.test(origin)
      : (origin: string) => origins.includes(origin);
  const isAllowed = (exchange: Exchange): boolean => allows(exchange.header('origin') ?? '');

  return {
    isPreflight: (exchange) =>
      exchange.method === 'OPTIONS' && exchange.header('access-control-request-method') !== undefined,
    headers: (exchange): Record<string, string> => {
      if (exchange.header('origin') === undefined) return NO_HEADERS;
      if (!isAllowed(exchange)) return { Vary: 'Origin' };
      return {
        'Access-Control-Allow-Origin': exchange.header('origin') as string,
        'Access-Control-Expose-Headers': EXPOSED,
        Vary: 'Origin',
      };
    },
    preflightHeaders: (exchange): Record<string, string> => {
      if (!isAllowed(exchange)) return {};
      return {
        'Access-Control-Allow-Methods': 'GET, POST, OPTIONS',
        'Access-Control-Allow-Headers': ALLOWED,
        'Access-Control-Max-Age': '7200',
        // A page on the web may ask this machine: https://wicg.github.io/private-network-access/
        ...(exchange.header('access-control-request-private-network') === 'true' && {
          'Access-Control-Allow-Private-Network': 'true',
        }),
      };
    },
  };
}
