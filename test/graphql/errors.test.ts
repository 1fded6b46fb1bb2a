import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { breakReads, startGateway, MODES, STORES, type Gateway } from '../support/gateway.js';

describe.each(MODES)('GraphQL errors, %s store', (mode) => {
  let gateway: Gateway;
  let key: string;

  beforeAll(async () => {
    gateway = await startGateway(mode);
    ({ key } = await gateway.createKey());
    await gateway.sql(`INSERT INTO pets (name, category_id) VALUES ('Bella', 10)`);
  });
  afterAll(() => gateway.close());

  it.each([
    ['an absent animal', '{ ok: pet(id: 1) { name } bad: pet(id: 404) { name } }', 'NOT_FOUND', 'not_found', 404],
    [
      'a limit of 0',
      '{ ok: pet(id: 1) { name } bad: pets(limit: 0) { name } }',
      'BAD_USER_INPUT',
      'invalid_request',
      400,
    ],
    [
      'a limit of 101',
      '{ ok: pet(id: 1) { name } bad: pets(limit: 101) { id } }',
      'BAD_USER_INPUT',
      'invalid_request',
      400,
    ],
    [
      'a negative limit',
      '{ ok: pet(id: 1) { name } bad: pets(limit: -1) { id } }',
      'BAD_USER_INPUT',
      'invalid_request',
      400,
    ],
    ['a bad id', '{ ok: pet(id: 1) { name } bad: pet(id: "x") { name } }', 'BAD_USER_INPUT', 'invalid_request', 400],
  ])('reports %s at its path and keeps sibling data', async (_, query, code, storeCode, storeStatus) => {
    const { status, headers, data, errors } = await gateway.graphql(query, { key });
    expect(status).toBe(200);
    expect(data).toEqual({ ok: { name: 'Bella' }, bad: null });
    expect(errors).toHaveLength(1);
    const [error] = errors ?? [];
    expect(error?.path).toEqual(['bad']);
    expect(error?.extensions).toEqual({
      code,
      error: { code: storeCode, message: error?.message, status: storeStatus },
      requestId: headers.get('x-request-id'),
    });
  });

  it.each([
    ['skip', '@skip of a root field', 'query ($v: Boolean = true) { pets(limit: 1) @skip(if: $v) { id } }'],
    ['include', '@include of a root field', 'query ($v: Boolean = true) { pets(limit: 1) @include(if: $v) { id } }'],
    [
      'include',
      '@include of an inline fragment',
      'query ($v: Boolean = true) { ... @include(if: $v) { pets { id } } }',
    ],
    [
      'skip',
      '@skip of a spread',
      'query ($v: Boolean = true) { ...F @skip(if: $v) } fragment F on Query { pets { id } }',
    ],
  ])('refuses the whole operation for a null variable: %s, %s', async (directive, _, query) => {
    const { status, headers, data, errors } = await gateway.graphql(query, { key, variables: { v: null } });
    expect(status).toBe(422);
    expect(data).toBeUndefined();
    expect(errors).toEqual([
      {
        message: `The condition of @${directive} must not be null.`,
        locations: [{ line: 1, column: expect.any(Number) }],
        extensions: {
          code: 'BAD_USER_INPUT',
          requestId: headers.get('x-request-id'),
        },
      },
    ]);
  });

  it.each([
    'query ($n: Int = 5) { ok: pet(id: 1) { name } bad: pets(limit: $n) { id } }',
    'query ($n: Boolean = true) { ok: pet(id: 1) { name } bad: rateLimit(dryRun: $n) { cost } }',
  ])('reports a null variable as a field error that REST does not have: %s', async (query) => {
    const { status, headers, data, errors } = await gateway.graphql(query, { key, variables: { n: null } });
    expect(status).toBe(200);
    expect(data).toEqual({ ok: { name: 'Bella' }, bad: null });
    expect(errors).toHaveLength(1);
    expect(errors?.[0]?.path).toEqual(['bad']);
    expect(errors?.[0]?.extensions).toEqual({ code: 'BAD_USER_INPUT', requestId: headers.get('x-request-id') });
  });

  it('reports a blank name and still runs the next addPet', async () => {
    const query = `mutation { bad: addPet(input: { name: " ", categoryId: 1 }) { id }
      ok: addPet(input: { name: "Rex", categoryId: 1 }) { name } }`;
    const { status, data, errors } = await gateway.graphql(query, { key });
    expect(status).toBe(200);
    expect(data).toEqual({ bad: null, ok: { name: 'Rex' } });
    expect(errors?.map(({ path, extensions }) => [path, extensions.code])).toEqual([[['bad'], 'BAD_USER_INPUT']]);
  });

  it('returns 200 when every field failed', async () => {
    const { status, data, errors } = await gateway.graphql('{ a: pet(id: 404) { id } b: pet(id: 405) { id } }', {
      key,
    });
    expect(status).toBe(200);
    expect(data).toEqual({ a: null, b: null });
    expect(errors?.map(({ path }) => path)).toEqual([['a'], ['b']]);
  });

  it.each([
    ['a syntax error', '{ pets {', {}, 400, 'GRAPHQL_PARSE_FAILED'],
    ['an unknown field', '{ dogs { id } }', {}, 422, 'GRAPHQL_VALIDATION_FAILED'],
    ['an unknown status', '{ pets(status: FLYING) { id } }', {}, 422, 'GRAPHQL_VALIDATION_FAILED'],
    ['a missing argument', '{ pet { id } }', {}, 422, 'GRAPHQL_VALIDATION_FAILED'],
    ['a missing variable', 'query ($id: ID!) { pet(id: $id) { id } }', {}, 422, 'BAD_USER_INPUT'],
    [
      'a null condition in introspection',
      'query ($v: Boolean = true) { __schema { queryType @skip(if: $v) { name } } }',
      { v: null },
      422,
      'BAD_USER_INPUT',
    ],
    [
      'a null name in introspection',
      'query ($v: String = "Pet") { ok: pets { id } __type(name: $v) { name } }',
      { v: null },
      422,
      'BAD_USER_INPUT',
    ],
    ['a variable of a wrong type', 'query ($n: Int!) { pets(limit: $n) { id } }', { n: 'x' }, 422, 'BAD_USER_INPUT'],
    [
      'an unknown field of an input variable',
      'mutation ($input: NewPet!) { addPet(input: $input) { id } }',
      { input: { name: 'Rex', categoryId: 1, id: 7 } },
      422,
      'BAD_USER_INPUT',
    ],
  ])('returns a request error without data for %s', async (_, query, variables, expectedStatus, code) => {
    const { status, headers, text, errors } = await gateway.graphql(query, { key, variables });
    expect(status).toBe(expectedStatus);
    expect(JSON.parse(text)).not.toHaveProperty('data');
    for (const { extensions } of errors ?? []) {
      expect(extensions).toMatchObject({ code, requestId: headers.get('x-request-id') });
      expect(extensions).not.toHaveProperty('error');
    }
    expect(errors?.length).toBeGreaterThan(0);
  });

  it('returns 422 for eighty missing variables', async () => {
    const names = Array.from({ length: 80 }, (_, i) => `v${i}`);
    const query = `query (${names.map((name) => `$${name}: Int!`).join(' ')}) {
      ${names.map((name) => `${name}: pets(limit: $${name}) { id }`).join(' ')} }`;
    const { status, errors } = await gateway.graphql(query, { key });
    expect(status).toBe(422);
    const codes = errors?.map(({ extensions }) => extensions.code);
    expect(new Set(codes)).toEqual(new Set(['BAD_USER_INPUT']));
  });

  it('returns 401 without data for a missing or an unknown key', async () => {
    for (const sent of [undefined, 'wrong']) {
      const { status, headers, text, errors } = await gateway.graphql('{ pets { id } }', { key: sent });
      expect(status).toBe(401);
      expect(JSON.parse(text)).not.toHaveProperty('data');
      expect(errors?.map(({ extensions }) => extensions)).toEqual([
        {
          code: 'UNAUTHENTICATED',
          error: { code: 'unauthorized', message: errors?.[0]?.message, status: 401 },
          requestId: headers.get('x-request-id'),
        },
      ]);
    }
  });

  it('gives every error the request id of the response header', async () => {
    const { headers, errors } = await gateway.graphql('{ a: pet(id: 404) { id } b: pets(limit: 0) { id } }', {
      key,
      headers: { 'X-Request-Id': 'trace-me.1' },
    });
    expect(headers.get('x-request-id')).toBe('trace-me.1');
    expect(errors?.map(({ extensions }) => extensions.requestId)).toEqual(['trace-me.1', 'trace-me.1']);
  });

  it('returns no stack trace, file path or key in any refusal', async () => {
    const answers = await Promise.all([
      gateway.graphql('{ pets {', { key }),
      gateway.graphql('{ pets(limit: 0) { id } }', { key }),
      gateway.graphql('{ pet(id: 404) { id } }', { key }),
      gateway.graphql('query ($id: ID!) { pet(id: $id) { id } }', { key, variables: { id: { a: 1 } } }),
      gateway.graphql('{ pets { id } }', { key: `${key}x` }),
    ]);
    for (const { text, errors } of answers) {
      expect(errors?.length).toBeGreaterThan(0);
      expect(text).not.toMatch(/stack|node_modules|\.ts\b|\.js\b|SELECT|file:/i);
      expect(text).not.toContain(process.cwd());
      expect(text).not.toContain(key);
    }
  });

  it('never logs a key', async () => {
    await gateway.graphql('{ pet(id: 404) { id } }', { key });
    await gateway.graphql('{ pets { id } }', { key: `${key}x` });
    expect(gateway.logged.length).toBeGreaterThan(0);
    expect(JSON.stringify(gateway.logged)).not.toContain(key);
  });
});

describe.each(STORES)('the Error body in GraphQL, %s store', (mode) => {
  let gateway: Gateway;
  let key: string;

  beforeAll(async () => {
    gateway = await startGateway(mode);
    ({ key } = await gateway.createKey());
  });
  afterAll(() => gateway.close());

  it.each([
    ['{ pet(id: 404) { id } }', '/v1/pets/404'],
    ['{ pet(id: "007") { id } }', '/v1/pets/007'],
    ['{ pets(limit: 500) { id } }', '/v1/pets?limit=500'],
    ['{ pets(limit: -1) { id } }', '/v1/pets?limit=-1'],
    ['{ pets(after: "x") { id } }', '/v1/pets?after=x'],
    [`{ pets(after: "${'9'.repeat(300)}") { id } }`, `/v1/pets?after=${'9'.repeat(300)}`],
  ])('equals the REST error for %s', async (query, path) => {
    const rest = await gateway.fetch(path, { headers: { Authorization: `Bearer ${key}` } });
    const { errors } = await gateway.graphql(query, { key });
    expect(errors?.[0]?.extensions.error).toEqual(await rest.json());
  });

  it.each(['', ' ', 'a\0', '\u2028', '🐶'.repeat(256), `pets_${'a'.repeat(38)}\0`])(
    'equals the REST error for the name %j',
    async (name) => {
      const headers = { Authorization: `Bearer ${key}`, 'Content-Type': 'application/json' };
      const rest = await gateway.fetch('/v1/pets', {
        method: 'POST',
        headers,
        body: JSON.stringify({ name, categoryId: 1 }),
      });
      const query = 'mutation ($name: String!) { addPet(input: { name: $name, categoryId: 1 }) { id } }';
      const { errors } = await gateway.graphql(query, { key, variables: { name } });
      expect(errors?.[0]?.extensions.error).toEqual(await rest.json());
    },
  );

  it.each([undefined, 'Bearer wrong'])('equals the REST error for Authorization: %s', async (authorization) => {
    const headers: Record<string, string> = authorization === undefined ? {} : { Authorization: authorization };
    const rest = await gateway.fetch('/v1/pets', { headers });
    const { errors } = await gateway.graphql('{ pets { id } }', { headers });
    expect(errors?.[0]?.extensions.error).toEqual(await rest.json());
  });

  it('equals the REST error over the limit, except for the seconds', async () => {
    const limited = await gateway.createKey({ plan: 'enterprise', limits: { perMinute: 1, perDay: 1 } });
    await gateway.graphql('{ pets { id } }', { key: limited.key });
    const rest = await gateway.fetch('/v1/pets', { headers: { Authorization: `Bearer ${limited.key}` } });
    const { errors } = await gateway.graphql('{ pets { id } }', { key: limited.key });
    const withoutSeconds = (body: unknown) => JSON.stringify(body).replace(/\d+ s/, 'N s');
    expect(withoutSeconds(errors?.[0]?.extensions.error)).toBe(withoutSeconds(await rest.json()));
  });

  it('masks an unexpected error and logs it in full with the request id', async () => {
    await gateway.graphql('{ pets { id } }', { key });
    const repair = await breakReads(gateway);
    const { status, headers, data, errors, text } = await gateway.graphql('{ pets { id } rateLimit { plan } }', {
      key,
    });
    await repair();
    expect(status).toBe(200);
    expect(data).toEqual({ pets: null, rateLimit: { plan: 'BUSINESS' } });
    const requestId = headers.get('x-request-id');
    const [error] = errors ?? [];
    expect(error?.path).toEqual(['pets']);
    expect(error?.extensions).toEqual({
      code: 'INTERNAL_SERVER_ERROR',
      error: { code: 'internal_error', message: error?.message, status: 500 },
      requestId,
    });
    expect(text).not.toMatch(/division|SELECT|stack|\.ts\b|\.js\b/i);
    const lines = gateway.logged.filter((line) => line.requestId === requestId && 'err' in line);
    expect(JSON.stringify(lines)).toContain('division by zero');
  });
});
