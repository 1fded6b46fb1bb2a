import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startGateway, STORES, type Gateway } from '../support/gateway.js';
import { createRestClient, expectLimitHeaders, type RestClient } from './requests.js';

describe.each(STORES)('adding animals over REST, %s store', (mode) => {
  let gateway: Gateway;
  let client: RestClient;

  beforeAll(async () => {
    gateway = await startGateway(mode);
    const { key } = await gateway.createKey();
    client = createRestClient(gateway, key);
  });
  afterAll(() => gateway.close());

  it('returns 201 with the animal and its Location', async () => {
    const { status, headers, body } = await client.post('{"name":"Bella","categoryId":10,"status":"sold"}');
    expect(status).toBe(201);
    expect(headers.get('content-type')).toBe('application/json; charset=utf-8');
    expect(body).toEqual({ id: expect.any(Number) as number, name: 'Bella', categoryId: 10, status: 'sold' });
    expect(headers.get('location')).toBe(`/v1/pets/${body.id}`);
    expect((await client.get(headers.get('location') as string)).body).toEqual(body);
  });

  it('reads a body of MAX_BODY_BYTES', async () => {
    const { status } = await client.post('{"name":"Bella","categoryId":10}'.padEnd(1_048_576));
    expect(status).toBe(201);
  });

  it('keeps an omitted status absent', async () => {
    const added = await client.post('{"categoryId":10,"name":"Flocke"}');
    expect(added.body).toEqual({ id: added.body.id, name: 'Flocke', categoryId: 10 });
    expect(await gateway.sql('SELECT status FROM pets WHERE id = $1', [added.body.id])).toEqual([{ status: null }]);
  });

  it.each(['available', 'pending', 'sold'])(
    'accepts the status %s, by which a list finds the animal',
    async (status) => {
      const { body } = await client.post(`{"name":"Rex","categoryId":1,"status":"${status}"}`);
      const listed = await client.get(`/v1/pets?status=${status}&limit=100`);
      expect(listed.body).toContainEqual(body);
    },
  );

  it.each([
    ['one character', 'x'],
    ['255 characters', 'é'.repeat(255)],
    ['255 characters outside the Basic Multilingual Plane', '😀'.repeat(255)],
    ['letters with white space around them', '  Rex\t'],
    ['quotes, backslashes and line breaks', '"\\/\b\f\n\r\t\u2028'],
    ['SQL', `Robert'); DROP TABLE pets; --`],
    ['a name that looks like a property', '__proto__'],
    ['several scripts', 'Žofka ハチ بيلا 🐕‍🦺'],
    ['combining characters', 'e\u0301'],
  ])('accepts a name of %s and returns it unchanged', async (_, name) => {
    const added = await client.post(JSON.stringify({ name, categoryId: 1 }));
    expect(added.status).toBe(201);
    expect(added.body.name).toBe(name);
    expect((await client.get(`/v1/pets/${added.body.id}`)).body.name).toBe(name);
  });

  it('accepts the escapes and white space of JSON', async () => {
    const { status, body } = await client.post(
      ' {\r\n\t"\\u006eame" : "\\ud83d\\ude00 \\u00e9" , "categoryId" : -1 } \n',
    );
    expect(status).toBe(201);
    expect(body).toMatchObject({ name: '😀 é', categoryId: -1 });
  });

  it.each(['application/json', 'application/json; charset=utf-8', 'Application/JSON;charset="UTF-8"'])(
    'accepts the content type %s',
    async (type) => {
      const { status } = await client.post('{"name":"Rex","categoryId":1}', { 'Content-Type': type });
      expect(status).toBe(201);
    },
  );

  it('accepts a body in pieces that split characters', async () => {
    const bytes = Buffer.from('{"name":"猫😀","categoryId":1}');
    const pieces = Array.from(bytes, (byte) => Uint8Array.of(byte));
    const { status, body } = await client.send('POST', '/v1/pets', {
      body: ReadableStream.from(pieces),
      headers: { 'Content-Type': 'application/json' },
      duplex: 'half',
    });
    expect(status).toBe(201);
    expect(body.name).toBe('猫😀');
  });

  it('costs one request', async () => {
    const { key } = await gateway.createKey({ plan: 'free' });
    const { headers } = await createRestClient(gateway, key).post('{"name":"Rex","categoryId":1}');
    expectLimitHeaders(headers, { limit: 60, remaining: 59 });
  });

  it('gives forty concurrently added animals forty different identifiers', async () => {
    const answers = await Promise.all(
      Array.from({ length: 40 }, (_, n) => client.post(`{"name":"twin ${n}","categoryId":${n}}`)),
    );
    expect(answers.map(({ status }) => status)).toEqual(answers.map(() => 201));
    expect(answers.map(({ body }) => body.name as string)).toEqual(answers.map((_, n) => `twin ${n}`));
    expect(new Set(answers.map(({ body }) => body.id as number)).size).toBe(40);
  });
});
