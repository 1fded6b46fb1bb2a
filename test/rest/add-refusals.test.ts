import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startGateway, STORES, type Gateway } from '../support/gateway.js';
import { animalStatements, createRestClient, expectError, expectLimitHeaders, type RestClient } from './requests.js';

describe.each(STORES)('invalid POST /v1/pets, %s store', (mode) => {
  let gateway: Gateway;
  let client: RestClient;

  beforeAll(async () => {
    gateway = await startGateway(mode);
    const { key } = await gateway.createKey({ plan: 'free' });
    client = createRestClient(gateway, key);
    gateway.statements.length = 0;
  });
  afterAll(() => gateway.close());

  async function expectRefused(body: string | Uint8Array<ArrayBuffer>, reason: RegExp): Promise<void> {
    const answer = await client.post(body);
    expectError(answer, 400, 'invalid_request', reason);
    expectLimitHeaders(answer.headers, { limit: 60, remaining: 60 });
    expect(answer.text.length).toBeLessThan(2_000);
  }

  it.each([
    ['{}', /name is required.*categoryId is required/],
    ['{"name":"Rex"}', /categoryId is required/],
    ['{"categoryId":1}', /name is required/],
    ['{"name":"Rex","categoryId":1,"id":5}', /"id"/],
    ['{"name":"Rex","categoryId":1,"id":null}', /"id"/],
    ['{"name":"Rex","categoryId":1,"tag":"dog"}', /"tag"/],
    ['{"name":"Rex","categoryId":1,"Status":"sold"}', /"Status"/],
    ['{"name":"Rex","category_id":1}', /categoryId.*"category_id"/],
    ['{"name":"Rex","categoryId":1,"constructor":1}', /"constructor"/],
    ['{"name":"Rex","categoryId":1,"__proto__":{}}', /"__proto__"/],
    ['{"__proto__":{"name":"Rex","categoryId":1}}', /has a key "__proto__"/],
    ['{"name":"Rex","categoryId":1,"":1}', /""/],
  ])('refuses the properties %s', expectRefused);

  it.each([
    ['{"name":"Rex","categoryId":1,"status":null}', /status.*null/],
    ['{"name":"Rex","categoryId":1,"status":"AVAILABLE"}', /status.*available.*AVAILABLE/],
    ['{"name":"Rex","categoryId":1,"status":"Sold"}', /status.*Sold/],
    ['{"name":"Rex","categoryId":1,"status":""}', /status/],
    ['{"name":"Rex","categoryId":1,"status":"gone"}', /status.*gone/],
    ['{"name":"Rex","categoryId":1,"status":1}', /status/],
    ['{"name":"Rex","categoryId":1,"status":["sold"]}', /status/],
    ['{"name":"Rex","categoryId":1,"status":{"sold":true}}', /status/],
  ])('refuses the status in %s', expectRefused);

  it.each([
    '"1"',
    '"9007199254740993"',
    '1.0',
    '1.5',
    '1e3',
    '1E0',
    '-0',
    '-0.0',
    '9223372036854775808',
    '-9223372036854775809',
    '9223372036854775807.0',
    '100000000000000000000',
    '1e400',
    'null',
    'true',
    '[]',
    '[1]',
    '{}',
    '{"text":"1"}',
    '""',
  ])('refuses the categoryId %s', (categoryId) =>
    expectRefused(`{"name":"Rex","categoryId":${categoryId}}`, /categoryId must be /),
  );

  it.each([
    ['an empty name', '""', /1 to 255/],
    ['a space', '" "', /white space/],
    ['many kinds of white space', '" \\t\\n\\r\\u00a0\\u2003\\u3000\\u2028"', /white space/],
    ['a NUL', '"R\\u0000x"', /NUL/],
    ['a lone high surrogate', '"Rex \\ud83d"', /surrogate/],
    ['a lone low surrogate', '"\\ude00 Rex"', /surrogate/],
    ['surrogates in the wrong order', '"\\ude00\\ud83d"', /surrogate/],
    ['256 characters', `"${'x'.repeat(256)}"`, /1 to 255/],
    ['256 characters outside the Basic Multilingual Plane', `"${'😀'.repeat(256)}"`, /1 to 255/],
    ['a hundred thousand characters', `"${'x'.repeat(100_000)}"`, /1 to 255/],
    ['a number', '5', /name must be a string/],
    ['null', 'null', /name must be a string/],
    ['true', 'true', /name must be a string/],
    ['an array', '["Rex"]', /name must be a string, got an array/],
    ['an object', '{"first":"Rex"}', /name must be a string, got an object/],
  ])('refuses a name that is %s', (_, name, reason) => expectRefused(`{"name":${name},"categoryId":1}`, reason));

  it.each(['[]', '[{"name":"Rex","categoryId":1}]', 'null', 'true', 'false', '0', '42', '9007199254740993', '"Rex"'])(
    'refuses a body that is not an object: %s',
    (body) => expectRefused(body, /must be a JSON object/),
  );

  it.each([
    ['', /is empty/],
    [' ', /not valid JSON/],
    ['{', /not valid JSON/],
    ['{"name":"Rex","categoryId":1', /not valid JSON/],
    ['{"name":"Rex","categoryId":1}}', /not valid JSON/],
    ['{"name":"Rex","categoryId":1} {}', /not valid JSON/],
    ['{"name":"Rex","categoryId":1,}', /not valid JSON/],
    [`{'name':'Rex','categoryId':1}`, /not valid JSON/],
    ['{name:"Rex",categoryId:1}', /not valid JSON/],
    ['{"name":"Rex","categoryId":01}', /not valid JSON/],
    ['{"name":"Rex","categoryId":+1}', /not valid JSON/],
    ['{"name":"Rex","categoryId":0x1}', /not valid JSON/],
    ['{"name":"Rex","categoryId":1.}', /not valid JSON/],
    ['{"name":"Rex","categoryId":NaN}', /not valid JSON/],
    ['{"name":"Rex","categoryId":1} // dog', /not valid JSON/],
    ['{"name":"Re\nx","categoryId":1}', /not valid JSON/],
    ['{"name":"Re\\x","categoryId":1}', /not valid JSON/],
    ['{"name":"Re\\u12","categoryId":1}', /not valid JSON/],
    ['name=Rex&categoryId=1', /not valid JSON/],
  ])('refuses invalid JSON: %j', expectRefused);

  it.each([
    ['{"name":"Rex","name":"Max","categoryId":1}', /the same key twice/],
    ['{"name":"Rex","name":"Rex","categoryId":1}', /the same key twice/],
    ['{"name":"Rex","\\u006eame":"Rex","categoryId":1}', /the same key twice/],
    ['{"name":"Rex","categoryId":1,"categoryId":1}', /the same key twice/],
    ['{"name":"Rex","categoryId":1,"categoryId":2}', /the same key twice/],
    ['{"name":"a \\"}{ b","categoryId":1,"status":"sold","status":"sold"}', /the same key twice/],
    ['{"name":"Rex","categoryId":1,"__proto__":1,"__proto__":1}', /has a key "__proto__"/],
    ['{"name":{"first":"a","first":"a"},"categoryId":1}', /the same key twice/],
  ])('refuses repeated properties: %s', expectRefused);

  it.each([
    ['a byte that never occurs', Uint8Array.of(0xff)],
    ['a truncated sequence', Uint8Array.of(0xe7, 0x8c)],
    ['an overlong form', Uint8Array.of(0xc0, 0xaf)],
    ['a surrogate in UTF-8', Uint8Array.of(0xed, 0xa0, 0x80)],
    ['Latin-1', Uint8Array.of(0xe9)],
  ])('refuses a body that is not UTF-8: %s', async (_, bytes) => {
    const body = Buffer.concat([Buffer.from('{"name":"Rex '), bytes, Buffer.from('","categoryId":1}')]);
    await expectRefused(Uint8Array.from(body), /UTF-8/);
  });

  it('refuses a body in UTF-16', () => expectRefused(new Uint8Array(Buffer.from('{"name":"Rex"}', 'utf16le')), /JSON/));

  it.each([100, 2_000, 4_000, 5_000, 6_000, 50_000])('refuses a value nested %i levels deep', async (depth) => {
    const nested = '['.repeat(depth) + ']'.repeat(depth);
    await expectRefused(`{"name":${nested},"categoryId":1}`, /name must be a string|not valid JSON|nests deeper/);
    await expectRefused(nested, /must be a JSON object|not valid JSON|nests deeper/);
  });

  it('refuses thousands of unknown properties without naming them all', async () => {
    const properties = Array.from({ length: 5_000 }, (_, n) => `"property${n}":${n}`).join(',');
    await expectRefused(`{${properties}}`, /"property0"/);
  });

  it('refuses a long body for the reason that a short one would have', () =>
    expectRefused(`{"name":"${'x'.repeat(500_000)}","categoryId":1}`, /1 to 255/));

  it('writes no half of a character', async () => {
    const status = '😀'.repeat(40);
    const { text } = await client.send('POST', '/v1/pets', {
      body: JSON.stringify({ name: 'Rex', categoryId: 1, status }),
      headers: { 'Content-Type': 'application/json' },
    });
    expect(text).toContain('😀');
    expect((JSON.parse(text) as { message: string }).message.isWellFormed()).toBe(true);
  });

  it('refuses query parameters', async () => {
    const answer = await client.send('POST', '/v1/pets?status=sold', {
      body: '{"name":"Rex","categoryId":1}',
      headers: { 'Content-Type': 'application/json' },
    });
    expectError(answer, 400, 'invalid_request', /status/);
  });

  it('sends no statement about animals to PostgreSQL', () => {
    expect(gateway.statements.filter((text) => text.includes('api_keys'))).not.toEqual([]);
    expect(animalStatements(gateway)).toEqual([]);
  });
});
