import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, describe, expect, expectTypeOf, it } from 'vitest';
import {
  isStoreErrorCode,
  STORE_ERRORS,
  toStoreErrors,
  type StoreError,
  type StoreErrorCode,
  type UnrecognizedError,
} from '../src/errors.js';
import { ERRORS } from '../../../src/errors.js';
import { startGateway, startProxyBefore, type Gateway, type GraphqlOptions } from '../../../test/support/gateway.js';
import { getFromLists, lookups } from './lookups.js';

/** Codes of GraphQL itself, which are not in the server's table. */
const OF_GRAPHQL: readonly StoreErrorCode[] = [
  'GRAPHQL_PARSE_FAILED',
  'GRAPHQL_VALIDATION_FAILED',
  'OPERATION_RESOLUTION_FAILURE',
  'PERSISTED_QUERY_NOT_FOUND',
];

describe('the catalogue', () => {
  it('has exactly the codes of the server', () => {
    const codes = Object.values(ERRORS).map(({ graphqlCode }) => graphqlCode);
    expect(new Set([...codes, ...OF_GRAPHQL])).toEqual(new Set(Object.keys(STORE_ERRORS)));
  });

  it.each(Object.entries(STORE_ERRORS))('explains %s', (_, { meaning }) => {
    expect(meaning).toMatch(/^[A-Za-z].*\.$/);
  });
});

describe('the errors of a real gateway match the catalogue', () => {
  let gateway: Gateway;
  let used: string;
  let fresh: string;
  let banned: string;

  beforeAll(async () => {
    gateway = await startGateway('server', { BAN_AFTER: '1', BAN_SECONDS: '100', ...lookups() });
    const limits = { perMinute: 1, perDay: 10 };
    const [usedKey, freshKey, bannedKey] = [
      await gateway.createKey({ plan: 'enterprise', limits }),
      await gateway.createKey({ plan: 'enterprise', limits: { perMinute: 10, perDay: 10 } }),
      await gateway.createKey({ plan: 'enterprise', limits }),
    ];
    [used, fresh, banned] = [usedKey.key, freshKey.key, bannedKey.key];
    await gateway.graphql('{ pets { id } }', { key: used });
    for (let use = 0; use < 3; use++) await gateway.graphql('{ pets { id } }', { key: banned });
  });
  afterAll(() => gateway.close());

  const eleven = `{ ${Array.from({ length: 11 }, (_, index) => `a${index}: pets(limit: ${index + 1}) { id }`).join(' ')} }`;
  const cases: readonly [StoreErrorCode, string, () => GraphqlOptions][] = [
    ['UNAUTHENTICATED', '{ pets { id } }', () => ({})],
    ['BAD_USER_INPUT', '{ pets(limit: 0) { id } }', () => ({ key: fresh })],
    ['BAD_USER_INPUT', 'query ($n: Int!) { pets(limit: $n) { id } }', () => ({ key: fresh, variables: { n: 'x' } })],
    ['RATE_LIMITED', '{ pets { id } }', () => ({ key: used })],
    ['KEY_BANNED', '{ pets { id } }', () => ({ key: banned })],
    ['OPERATION_TOO_LARGE', eleven, () => ({ key: fresh })],
    ['BAD_REQUEST', '', () => ({ key: fresh })],
    ['GRAPHQL_PARSE_FAILED', '{ pets {', () => ({ key: fresh })],
    ['GRAPHQL_VALIDATION_FAILED', '{ dogs }', () => ({ key: fresh })],
    ['OPERATION_RESOLUTION_FAILURE', 'query A { __typename } query B { __typename }', () => ({ key: fresh })],
  ];
  // Only lookups have this error.
  const ofLookups: typeof cases = [['NOT_FOUND', '{ pet(id: 404) { id } }', () => ({ key: fresh })]];

  it.each([...cases, ...(getFromLists ? [] : ofLookups)])('%s: %s', async (code, query, options) => {
    const answer = await gateway.graphql(query, options());
    const [error] = toStoreErrors(JSON.parse(answer.text));
    expect(error).toMatchObject({ code, requestId: answer.headers.get('x-request-id') });
    expectConsistent(error as StoreError);
  });

  it('PERSISTED_QUERY_NOT_FOUND', async () => {
    const answer = await gateway.fetch('/graphql', {
      method: 'POST',
      headers: { 'Content-Type': 'application/json', Authorization: `Bearer ${fresh}` },
      body: JSON.stringify({ extensions: { persistedQuery: { version: 1, sha256Hash: '0'.repeat(64) } } }),
    });
    const result = (await answer.json()) as { data?: unknown };
    const [error] = toStoreErrors(result);
    expect(error?.code).toBe('PERSISTED_QUERY_NOT_FOUND');
    expectConsistent(error as StoreError);
  });

  it('UPSTREAM_UNAVAILABLE', async () => {
    const error = JSON.stringify({ code: 'unauthorized', message: 'no key', status: 401 });
    const upstream = createServer((_, response) => response.writeHead(401).end(error)).listen(0, '127.0.0.1');
    await once(upstream, 'listening');
    const { port } = upstream.address() as AddressInfo;
    const proxy = await startProxyBefore(`http://127.0.0.1:${port}/v1`, { UPSTREAM_TIMEOUT_MS: '5000' });
    upstream.close();
    upstream.closeAllConnections();
    try {
      const answer = await proxy.graphql('{ pets { id } }', { key: 'any' });
      const [error] = toStoreErrors(JSON.parse(answer.text));
      expect(error?.code).toBe('UPSTREAM_UNAVAILABLE');
      expectConsistent(error as StoreError);
    } finally {
      await proxy.close();
    }
  });

  function expectConsistent(error: StoreError): void {
    const { repeat } = STORE_ERRORS[error.code];
    if (repeat === 'after-wait') expect(error).toMatchObject({ retryAfter: expect.any(Number) as number });
    if (repeat === 'no') expect(error).not.toHaveProperty('retryAfter');
    if (error.code === 'RATE_LIMITED') expect(error.cost).toBe(1);
    if (error.code === 'OPERATION_TOO_LARGE') expect(error.cost).toBe(11);
    if (error.error)
      expect(error.error).toEqual({
        code: expect.any(String) as string,
        message: error.message,
        status: expect.any(Number) as number,
      });
  }
});

describe('toStoreErrors', () => {
  const raw = {
    message: 'Slow down.',
    extensions: {
      code: 'RATE_LIMITED',
      retryAfter: 7,
      cost: 2,
      requestId: 'r1',
      error: { code: 'rate_limited', message: 'Slow down.', status: 429 },
    },
  };
  const error = { message: 'Slow down.', ...raw.extensions };

  it.each<[string, unknown]>([
    ['a result', { errors: [raw] }],
    ['a list of errors', [raw]],
    ['the results of a batch', [{ data: null }, { errors: [raw] }]],
    ['the CombinedError of urql', { graphQLErrors: [raw] }],
    ['the ClientError of graphql-request', { response: { errors: [raw], status: 429 } }],
    [
      'the ClientError of its batches',
      { response: { 0: { data: null }, 1: { errors: [raw] }, status: 200, headers: {} } },
    ],
    ['the ServerError of Apollo Client', { statusCode: 429, bodyText: JSON.stringify({ errors: [raw] }) }],
  ])('reads %s', (_, answer) => {
    expect(toStoreErrors(answer)).toEqual([error]);
  });

  it.each([undefined, null, 'text', 7, {}, new TypeError('fetch failed'), { bodyText: '<html>' }, { data: {} }])(
    'finds no errors in %j',
    (answer) => {
      expect(toStoreErrors(answer)).toEqual([]);
    },
  );

  it('keeps the path of a field', () => {
    const extensions = { code: 'NOT_FOUND', requestId: 'r' };
    expect(toStoreErrors([{ message: 'No.', path: ['a', 0], extensions }])).toEqual([
      { message: 'No.', path: ['a', 0], code: 'NOT_FOUND', requestId: 'r' },
    ]);
  });

  it.each([
    [
      { message: 'New.', extensions: { code: 'TEAPOT' } },
      { message: 'New.', code: 'UNRECOGNIZED', receivedCode: 'TEAPOT' },
    ],
    [
      { message: 'Odd.', extensions: { code: 'toString' } },
      { message: 'Odd.', code: 'UNRECOGNIZED', receivedCode: 'toString' },
    ],
    [{ message: 'Bare.' }, { message: 'Bare.', code: 'UNRECOGNIZED' }],
    [null, { message: 'The error has no message.', code: 'UNRECOGNIZED' }],
  ])('does not recognize %j', (foreign, expected) => {
    expect(toStoreErrors([foreign])).toEqual([expected]);
  });

  it('adds the shortest retryAfter to an error that must have one', () => {
    expect(toStoreErrors([{ message: 'x', extensions: { code: 'KEY_BANNED' } }])).toMatchObject([{ retryAfter: 1 }]);
  });
});

describe('the types', () => {
  it('are a union by code', () => {
    expectTypeOf<Extract<StoreError, { code: 'RATE_LIMITED' }>['retryAfter']>().toEqualTypeOf<number>();
    expectTypeOf<Extract<StoreError, { code: 'RATE_LIMITED' }>['cost']>().toEqualTypeOf<number | undefined>();
    expectTypeOf<Extract<StoreError, { code: 'OPERATION_TOO_LARGE' }>['cost']>().toEqualTypeOf<number | undefined>();
    expectTypeOf<Extract<StoreError, { code: 'SERVICE_UNAVAILABLE' }>['retryAfter']>().toEqualTypeOf<
      number | undefined
    >();
    expectTypeOf<Extract<StoreError, { code: 'NOT_FOUND' }>>().not.toHaveProperty('retryAfter');
    expectTypeOf<(StoreError | UnrecognizedError)['code']>().toEqualTypeOf<StoreErrorCode | 'UNRECOGNIZED'>();
    const value: unknown = 'NOT_FOUND';
    if (isStoreErrorCode(value)) expectTypeOf(value).toEqualTypeOf<StoreErrorCode>();
    expect([isStoreErrorCode(value), isStoreErrorCode('hasOwnProperty'), isStoreErrorCode(7)]).toEqual([
      true,
      false,
      false,
    ]);
  });
});
