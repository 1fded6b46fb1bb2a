import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startProxyBefore, type ProxyOnly } from '../support/gateway.js';
import { freeLimits, send, startScriptedUpstream, type ScriptedUpstream } from '../support/scripted-upstream.js';

describe('an upstream response', () => {
  let upstream: ScriptedUpstream;
  let gateway: ProxyOnly;
  let keys = 0;
  /** A key whose limits are still unknown. */
  const freshKey = () => `key-${keys++}`;

  beforeAll(async () => {
    upstream = await startScriptedUpstream();
    gateway = await startProxyBefore(upstream.url);
  });
  afterAll(async () => {
    await gateway.close();
    await upstream.close();
  });

  it.each([
    [400, 'BAD_USER_INPUT'],
    [422, 'BAD_USER_INPUT'],
    [404, 'NOT_FOUND'],
    [403, 'UPSTREAM_ERROR'],
    [409, 'UPSTREAM_ERROR'],
    [500, 'UPSTREAM_ERROR'],
    [501, 'UPSTREAM_ERROR'],
  ])('with status %i and an Error body becomes %s with that body verbatim', async (status, code) => {
    const body = { code: 'their_own_code', message: 'In their own words.', status };
    upstream.play((_, response) => send(response, status, { ...body, extra: 1 }));
    const answer = await gateway.graphql('{ pet(id: 5) { id } }', { key: freshKey() });
    expect(answer.status).toBe(200);
    expect(answer.data).toEqual({ pet: null });
    expect(answer.errors).toHaveLength(1);
    expect(answer.errors?.[0]).toMatchObject({ message: body.message, path: ['pet'], extensions: { code } });
    expect(answer.errors?.[0]?.extensions.error).toEqual(body);
  });

  it('with a message that is too long to repeat keeps its code', async () => {
    const body = { code: 'theirs', message: 'x'.repeat(2_001), status: 404 };
    upstream.play((_, response) => send(response, 404, body));
    const { errors } = await gateway.graphql('{ pet(id: 5) { id } }', { key: freshKey() });
    expect(errors?.map(({ extensions }) => [extensions.code, extensions.error])).toEqual([['NOT_FOUND', undefined]]);
  });

  it.each([
    [255, '🐶', undefined],
    [256, '犬', ['UPSTREAM_ERROR']],
  ])('with a name of %i characters is one of an animal only up to 255: %s', async (length, character, codes) => {
    const name = character.repeat(length);
    upstream.play((_, response) => send(response, 200, { id: 5, name, categoryId: 1 }));
    const { errors } = await gateway.graphql('{ pet(id: 5) { name } }', { key: freshKey() });
    expect(errors?.map(({ extensions }) => extensions.code)).toEqual(codes);
  });

  it.each([
    ['401', 401, 'unauthorized', 'UNAUTHENTICATED', {}],
    ['429', 429, 'slow_down', 'RATE_LIMITED', { 'Retry-After': '7' }],
    ['429 for a ban', 429, 'key_banned', 'KEY_BANNED', { 'Retry-After': '7' }],
  ])('with %s sets the status of the response if no field got data', async (_, status, theirs, code, headers) => {
    const body = { code: theirs, message: 'No.', status };
    upstream.play((_request, response) => send(response, status, body, headers));
    const answer = await gateway.graphql('{ a: pet(id: 5) { id } pets { id } }', { key: freshKey() });
    expect(answer.status).toBe(status);
    expect(answer.text).not.toContain('"data"');
    expect(answer.errors).toHaveLength(1);
    expect(answer.errors?.[0]?.extensions).toMatchObject({ code, error: body });
    if (status === 401) expect(answer.headers.get('www-authenticate')).toContain('error="invalid_token"');
    else {
      expect(answer.headers.get('retry-after')).toBe('7');
      expect(answer.errors?.[0]?.extensions.retryAfter).toBe(7);
    }
  });

  it('sets the status beside a field whose argument is refused', async () => {
    const body = { code: 'unauthorized', message: 'No.', status: 401 };
    upstream.play((_, response) => send(response, 401, body));
    const answer = await gateway.graphql('{ pets { id } bad: pets(limit: 500) { id } }', { key: freshKey() });
    expect(answer.status).toBe(401);
    expect(answer.errors).toMatchObject([{ extensions: { code: 'UNAUTHENTICATED', error: body } }]);
  });

  it.each([401, 429])('with %i sets the status beside fields that ask the upstream nothing', async (status) => {
    const headers = { ...freeLimits(9), 'Retry-After': '1' };
    const key = freshKey();
    upstream.play((_, response) => send(response, 200, [], headers));
    await gateway.graphql('{ pets { id } }', { key });
    upstream.play((_, response) => send(response, status, { code: 'no', message: 'No.', status }, headers));
    const answer = await gateway.graphql('{ __typename rateLimit { plan } pets { id } }', { key });
    expect(answer.status).toBe(status);
    expect(answer.text).not.toContain('"data"');
    expect(answer.errors).toHaveLength(1);
  });

  it('with 429 leaves the status at 200 if another field got data', async () => {
    upstream.play(({ path }, response) =>
      path.startsWith('/pets/')
        ? send(response, 429, { code: 'rate_limited', message: 'No.', status: 429 }, { 'Retry-After': '1' })
        : send(response, 200, '[]'),
    );
    const answer = await gateway.graphql('{ a: pet(id: 5) { id } pets { id } }', { key: freshKey() });
    expect(answer.status).toBe(200);
    expect(answer.data).toEqual({ a: null, pets: [] });
    expect(answer.errors?.[0]).toMatchObject({ path: ['a'], extensions: { code: 'RATE_LIMITED', retryAfter: 1 } });
  });

  it('with a limit above the maximum of Int is reported with that maximum', async () => {
    const key = freshKey();
    const headers = {
      'X-RateLimit-Limit': '5000000000',
      'X-RateLimit-Remaining': '4999999999',
      'X-RateLimit-Reset': String(Math.ceil(Date.now() / 1_000) + 40),
    };
    upstream.play((_, response) => send(response, 200, [], headers));
    await gateway.graphql('{ pets { id } }', { key });
    const { data } = await gateway.graphql('{ rateLimit { windows { limit remaining } } }', { key });
    expect(data.rateLimit.windows).toEqual([{ limit: 2_147_483_647, remaining: 2_147_483_647 }]);
  });

  it.each([
    [429, 'RATE_LIMITED'],
    [401, 'UNAUTHENTICATED'],
  ])('with %i and an incomplete body is still treated as that', async (refusal, code) => {
    const key = freshKey();
    upstream.play((_, response) => {
      response.writeHead(refusal, { 'Content-Length': '100', 'Retry-After': '30' });
      response.write('{"code":', () => response.destroy());
    });
    const before = upstream.seen.length;
    for (let i = 0; i < 2; i += 1) {
      const { status, errors } = await gateway.graphql('{ pets { id } }', { key });
      expect(status).toBe(refusal);
      expect(errors?.[0]?.extensions.code).toBe(code);
    }
    expect(upstream.seen).toHaveLength(before + 1);
  });

  it('with 401 is remembered with its body', async () => {
    const key = freshKey();
    const body = { code: 'bad_key', message: 'In their own words.', status: 401 };
    upstream.play((_, response) => send(response, 401, body));
    const before = upstream.seen.length;
    for (let i = 0; i < 2; i += 1) {
      const { errors } = await gateway.graphql('{ pets { id } }', { key });
      expect(errors?.[0]).toMatchObject({ message: body.message, extensions: { error: body } });
    }
    expect(upstream.seen).toHaveLength(before + 1);
  });

  it('that is not HTTP and repeats the key does not bring it into the log', async () => {
    const key = `secret-${freshKey()}`;
    upstream.play((request, response) => response.socket?.end(`NONSENSE ${request.headers.authorization}\r\n\r\n`));
    const { errors } = await gateway.graphql('{ pets { id } }', { key });
    expect(errors?.[0]?.extensions.code).toBe('UPSTREAM_ERROR');
    expect(gateway.logged.some(({ code }) => code === 'upstream_error')).toBe(true);
    expect(JSON.stringify(gateway.logged)).not.toContain(key);
  });

  it('may state Retry-After as an HTTP date', async () => {
    const inTenSeconds = new Date(Date.now() + 10_000).toUTCString();
    upstream.play((_, response) =>
      send(response, 429, { code: 'x', message: 'No.', status: 429 }, { 'Retry-After': inTenSeconds }),
    );
    const answer = await gateway.graphql('{ pets { id } }', { key: freshKey() });
    expect(answer.status).toBe(429);
    expect(answer.errors?.[0]?.extensions.retryAfter).toBeGreaterThanOrEqual(9);
    expect(answer.errors?.[0]?.extensions.retryAfter).toBeLessThanOrEqual(10);
  });

  const HTML = '<html><body>secret-host.internal</body></html>';
  it.each([
    ['HTML with 500', 500, HTML, 1],
    ['HTML with 404', 404, HTML],
    ['an empty body with 400', 400, ''],
    ['a truncated Error', 400, '{"code":"x","mess'],
    ['an Error with wrong types', 404, '{"code":1,"message":"m","status":404}'],
    ['an Error whose status is text', 404, '{"code":"c","message":"m","status":"404"}'],
    ['an array as Error', 500, '[]', 1],
    ['ten megabytes', 500, `{"code":"c","message":"${'x'.repeat(10_000_000)}","status":500}`],
  ])(
    'without a valid Error body (%s) becomes UPSTREAM_ERROR and is not quoted',
    async (_, status, body, retryAfter?) => {
      upstream.play((_request, response) => send(response, status, body));
      const answer = await gateway.graphql('{ pet(id: 5) { id } }', { key: freshKey() });
      expect(answer.status).toBe(200);
      expect(answer.data).toEqual({ pet: null });
      expect(answer.errors?.[0]?.extensions).toMatchObject({ code: 'UPSTREAM_ERROR' });
      expect(answer.errors?.[0]?.extensions.retryAfter).toBe(retryAfter);
      expect(answer.errors?.[0]?.extensions.error).toBeUndefined();
      expect(answer.text).not.toContain('secret-host');
      expect(answer.text.length).toBeLessThan(1_000);
    },
  );

  it.each([
    ['without a name', '{"id":5,"categoryId":1}'],
    ['with a name of 511 characters', `{"id":5,"name":"${'x'.repeat(511)}","categoryId":1}`],
    ['whose id is text', '{"id":"5","name":"x","categoryId":1}'],
    ['whose id is not an int64', '{"id":9223372036854775808,"name":"x","categoryId":1}'],
    ['whose id is a fraction', '{"id":5.0,"name":"x","categoryId":1}'],
    ['without a category', '{"id":5,"name":"x"}'],
    ['with another id', '{"id":6,"name":"x","categoryId":1}'],
    ['in a list', '[{"id":5,"name":"x","categoryId":1}]'],
    ['cut off', '{"id":5,"name":"x","categ'],
    ['missing', ''],
  ])('with an animal %s becomes UPSTREAM_ERROR', async (_, body) => {
    upstream.play((_request, response) => send(response, 200, body));
    const answer = await gateway.graphql('{ pet(id: 5) { id name } }', { key: freshKey() });
    expect(answer.data).toEqual({ pet: null });
    expect(answer.errors?.[0]?.extensions.code).toBe('UPSTREAM_ERROR');
  });

  it.each([
    ['not a list', '{"id":5,"name":"x","categoryId":1}'],
    ['a list with a hole', '[{"id":5,"name":"x","categoryId":1},null]'],
    ['null', 'null'],
    ['many numbers', `[${'1.0,'.repeat(200_000)}1]`],
  ])('to a list request that is %s becomes UPSTREAM_ERROR', async (_, body) => {
    upstream.play((_request, response) => send(response, 200, body));
    const answer = await gateway.graphql('{ pets { id } }', { key: freshKey() });
    expect(answer.data).toEqual({ pets: null });
    expect(answer.errors?.[0]?.extensions.code).toBe('UPSTREAM_ERROR');
  });

  it('may contain unknown fields, any order and more animals than requested', async () => {
    upstream.play((_, response) =>
      send(
        response,
        200,
        '[{"id":9007199254740993,"name":"b","categoryId":-1,"born":1},{"id":2,"name":"a","categoryId":9223372036854775807}]',
      ),
    );
    const key = freshKey();
    const { data } = await gateway.graphql('{ pets { id name categoryId status } }', { key });
    expect(data.pets).toEqual([
      { id: '2', name: 'a', categoryId: '9223372036854775807', status: null },
      { id: '9007199254740993', name: 'b', categoryId: '-1', status: null },
    ]);
    const { data: first } = await gateway.graphql('{ pets(limit: 1) { id } }', { key });
    expect(first.pets).toEqual([{ id: '2' }]);
  });
});
