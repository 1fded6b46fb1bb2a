import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { STORES, startGateway, type Gateway } from '../support/gateway.js';
import { createRestClient, expectError, type Answer, type RestClient } from './requests.js';

const PROBLEM = { Accept: 'application/json, application/problem+json' };

describe.each(STORES)('problem details, %s store', (mode) => {
  let gateway: Gateway;
  let client: RestClient;

  beforeAll(async () => {
    gateway = await startGateway(mode, { BAN_AFTER: '1' });
    const { key } = await gateway.createKey({ plan: 'business' });
    client = createRestClient(gateway, key);
  });
  afterAll(() => gateway.close());

  /** Expects a body of https://www.rfc-editor.org/rfc/rfc9457 */
  function expectProblem({ status, headers, body }: Answer, expected: object): void {
    expect(headers.get('content-type')).toBe('application/problem+json');
    expect(body).toEqual({ type: 'about:blank', detail: expect.any(String), status, ...expected });
  }

  it('say what is wrong', async () => {
    expectProblem(await client.get('/v1/pets?limit=500', PROBLEM), {
      title: 'Bad Request',
      status: 400,
      code: 'invalid_request',
      detail: 'limit must be a whole number from 1 to 100, got 500.',
    });
    expectProblem(await client.get('/v1/pets/404', PROBLEM), { title: 'Not Found', status: 404, code: 'not_found' });
    expectProblem(await client.send('DELETE', '/v1/pets', { headers: PROBLEM }), {
      title: 'Method Not Allowed',
      status: 405,
      code: 'method_not_allowed',
    });
    expectProblem(await createRestClient(gateway).get('/v1/pets', PROBLEM), {
      title: 'Unauthorized',
      status: 401,
      code: 'unauthorized',
    });
    expectProblem(await client.get('/nowhere', PROBLEM), { title: 'Not Found', status: 404, code: 'not_found' });
    const upperCase = { Accept: 'Application/Problem+JSON' };
    expectProblem(await client.get('/v1/pets/404', upperCase), { title: 'Not Found', status: 404, code: 'not_found' });
  });

  it('name the policies that a key has exhausted, and a ban', async () => {
    const { key } = await gateway.createKey({ plan: 'enterprise', limits: { perMinute: 1, perDay: 100 } });
    const limited = createRestClient(gateway, key);
    await limited.get('/v1/pets', PROBLEM);
    expectProblem(await limited.get('/v1/pets', PROBLEM), {
      type: 'https://iana.org/assignments/http-problem-types#quota-exceeded',
      title: 'Quota Exceeded',
      status: 429,
      code: 'rate_limited',
      'violated-policies': ['minute'],
    });
    expectProblem(await limited.get('/v1/pets', PROBLEM), {
      type: 'https://iana.org/assignments/http-problem-types#abnormal-usage-detected',
      title: 'Abnormal Usage Detected',
      status: 429,
      code: 'key_banned',
    });
  });

  it('are sent only if Accept names their type', async () => {
    for (const accept of [
      '*/*',
      'application/json',
      'application/*',
      'application/json, application/problem+json;q=0',
    ]) {
      expectError(await client.get('/v1/pets/404', { Accept: accept }), 404, 'not_found');
    }
    for (const accept of ['application/problem+json', 'application/problem+json; charset=utf-8'])
      expectProblem(await client.get('/v1/pets/404', { Accept: accept }), {
        title: 'Not Found',
        status: 404,
        code: 'not_found',
      });
  });

  it('leave animals as they are', async () => {
    for (const accept of [PROBLEM.Accept, 'application/problem+json']) {
      const { status, headers, body } = await client.get('/v1/pets', { Accept: accept });
      expect([status, headers.get('content-type'), body]).toEqual([200, 'application/json; charset=utf-8', []]);
    }
  });
});
