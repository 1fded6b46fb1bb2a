import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { MODES, startGateway, type Gateway } from '../support/gateway.js';

const STUDIO = 'https://studio.apollographql.com';
const EMBEDDED_SANDBOX = 'https://sandbox.embed.apollographql.com';
const LOCAL = ['http://localhost:3000', 'https://localhost', 'http://127.0.0.1:5173', 'http://[::1]:8080'];
const STRANGERS = [
  'https://example.com',
  'https://localhost.example.com',
  'http://127.0.0.1.example.com:3000',
  'https://studio.apollographql.com.example.com',
  'null',
];
const REQUESTED =
  'apollographql-client-name,apollographql-client-version,apollo-require-preflight,authorization,content-type,idempotency-key,traceparent,tracestate,baggage,sentry-trace,x-apollo-operation-name';
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
];

async function preflight(gateway: Gateway, origin: string, requested = REQUESTED): Promise<Response> {
  return gateway.fetch('/graphql', {
    method: 'OPTIONS',
    headers: {
      Origin: origin,
      'Access-Control-Request-Method': 'POST',
      'Access-Control-Request-Headers': requested,
    },
  });
}

function listOf(response: Response, header: string): string[] {
  return (response.headers.get(header) ?? '').split(',').map((item) => item.trim().toLowerCase());
}

function expectRefusal(response: Response): void {
  expect(response.headers.get('access-control-allow-origin')).toBeNull();
  expect(response.headers.get('access-control-allow-headers')).toBeNull();
}

describe.each(MODES)('CORS in development, %s store', (mode) => {
  let gateway: Gateway;
  let key: string;

  beforeAll(async () => {
    gateway = await startGateway(mode, { NODE_ENV: 'development' });
    ({ key } = await gateway.createKey({ plan: 'enterprise', limits: { perMinute: 1, perDay: 10 } }));
  });
  afterAll(() => gateway.close());

  it.each([STUDIO, EMBEDDED_SANDBOX, ...LOCAL])('allows requests from %s', async (origin) => {
    const response = await preflight(gateway, origin);
    expect(response.status).toBe(204);
    expect(response.headers.get('access-control-allow-origin')).toBe(origin);
    expect(response.headers.get('vary')).toContain('Origin');
    expect(listOf(response, 'access-control-allow-methods')).toEqual(expect.arrayContaining(['get', 'post']));
    expect(listOf(response, 'access-control-allow-headers')).toEqual(expect.arrayContaining(REQUESTED.split(',')));
  });

  it.each(['/schema.graphql', '/livez'])('allows requests with further headers to %s too', async (path) => {
    const response = await gateway.fetch(path, {
      method: 'OPTIONS',
      headers: { Origin: STUDIO, 'Access-Control-Request-Method': 'GET', 'Access-Control-Request-Headers': 'baggage' },
    });
    expect(response.status).toBe(204);
    expect(response.headers.get('access-control-allow-origin')).toBe(STUDIO);
  });

  it('allows new headers of Apollo Sandbox but no other unknown header', async () => {
    const response = await preflight(
      gateway,
      EMBEDDED_SANDBOX,
      'apollo-federation-include-trace,x-apollo-new-thing,x-other',
    );
    const allowed = listOf(response, 'access-control-allow-headers');
    expect(allowed).toEqual(expect.arrayContaining(['apollo-federation-include-trace', 'x-apollo-new-thing']));
    expect(allowed).not.toContain('x-other');
  });

  it.each(STRANGERS)('refuses requests from %s', async (origin) => {
    const response = await preflight(gateway, origin);
    expectRefusal(response);
    expect(response.headers.get('vary')).toContain('Origin');
  });

  it('exposes the limit headers on every response', async () => {
    const query = '{ pets { id } }';
    const answers = [
      await gateway.graphql(query, { key, headers: { Origin: STUDIO } }),
      await gateway.graphql(query, { key, headers: { Origin: STUDIO } }),
      await gateway.graphql(query, { headers: { Origin: STUDIO } }),
    ];
    expect(answers.map(({ status }) => status)).toEqual([200, 429, 401]);
    for (const { headers } of answers) {
      expect(headers.get('access-control-allow-origin')).toBe(STUDIO);
      const exposed = (headers.get('access-control-expose-headers') ?? '').split(', ');
      expect(exposed).toEqual(expect.arrayContaining(EXPOSED));
    }
  });

  it('sends no CORS origin header when the request has no Origin', async () => {
    const { headers } = await gateway.graphql('{ __typename }');
    expect(headers.get('access-control-allow-origin')).toBeNull();
  });
});

describe.each(MODES)('CORS in production, %s store', (mode) => {
  it('refuses every origin by default', async () => {
    const gateway = await startGateway(mode, { NODE_ENV: 'production' });
    try {
      const { key } = await gateway.createKey();
      for (const origin of [STUDIO, EMBEDDED_SANDBOX, ...LOCAL]) expectRefusal(await preflight(gateway, origin));
      const { status, headers } = await gateway.graphql('{ pets { id } }', { key, headers: { Origin: STUDIO } });
      expect(status).toBe(200);
      expect(headers.get('access-control-allow-origin')).toBeNull();
    } finally {
      await gateway.close();
    }
  });

  it('allows one label for each star in CORS_ORIGINS, and the headers of CORS_HEADERS', async () => {
    const env = { CORS_ORIGINS: 'https://*.example.com', CORS_HEADERS: 'X-Trace-Id, X-B3-TraceId' };
    const gateway = await startGateway(mode, { NODE_ENV: 'production', ...env });
    try {
      for (const origin of [
        'https://app.example.com',
        'https://a-1.example.com',
        'https://xn--bcher-kva.example.com',
      ]) {
        const response = await preflight(gateway, origin, `${REQUESTED},x-trace-id,x-b3-traceid,x-other`);
        expect(response.headers.get('access-control-allow-origin')).toBe(origin);
        const allowed = listOf(response, 'access-control-allow-headers');
        expect(allowed).toEqual(expect.arrayContaining(['x-trace-id', 'x-b3-traceid', ...REQUESTED.split(',')]));
        expect(allowed).not.toContain('x-other');
      }
      for (const origin of [
        'https://example.com',
        'https://.example.com',
        'https://a.b.example.com',
        'http://app.example.com',
        'https://app.example.com.evil.test',
        'https://appxexample.com',
        'https://app.example.com:8443',
        'https://evil.test/.example.com',
      ]) {
        expectRefusal(await preflight(gateway, origin));
      }
    } finally {
      await gateway.close();
    }
  });

  it('allows only the origins listed in CORS_ORIGINS', async () => {
    const named = ['https://app.example.com', 'http://localhost:8080'];
    const gateway = await startGateway(mode, { NODE_ENV: 'production', CORS_ORIGINS: named.join(', ') });
    try {
      for (const origin of named) {
        const response = await preflight(gateway, origin);
        expect(response.headers.get('access-control-allow-origin')).toBe(origin);
      }
      for (const origin of [
        STUDIO,
        'http://localhost:3000',
        'https://app.example.com:8443',
        'http://app.example.com',
      ]) {
        expectRefusal(await preflight(gateway, origin));
      }
    } finally {
      await gateway.close();
    }
  });
});
