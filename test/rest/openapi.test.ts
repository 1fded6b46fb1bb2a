import { parse } from 'lossless-json';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { takeDatabaseAccess } from '../support/database-access.js';
import { breakReads, startGateway, STORES, type Gateway } from '../support/gateway.js';
import { isObject, resolve, validate, WrittenNumber } from './json-schema.js';
import { createRestClient, type Answer, type RestClient } from './requests.js';

describe.each(STORES)('the OpenAPI document, %s store', (mode) => {
  let gateway: Gateway;
  let client: RestClient;
  let document: any;

  beforeAll(async () => {
    gateway = await startGateway(mode, { NODE_ENV: 'production', MAX_BODY_BYTES: '2048', KEY_SELF_ROTATION: 'true' });
    client = createRestClient(gateway, (await gateway.createKey()).key);
    document = (await createRestClient(gateway).get('/v1/openapi.json')).body;
  });
  afterAll(() => gateway.close());

  it('is served as JSON without a key, to GET and HEAD, uncharged', async () => {
    for (const asker of [client, createRestClient(gateway), createRestClient(gateway, 'pets_wrong')]) {
      const { status, headers } = await asker.get('/v1/openapi.json');
      expect(status).toBe(200);
      expect(headers.get('content-type')).toBe('application/json; charset=utf-8');
      expect(headers.get('x-ratelimit-remaining')).toBe(headers.get('x-ratelimit-limit'));
    }
    const head = await client.send('HEAD', '/v1/openapi.json');
    expect({ status: head.status, text: head.text }).toEqual({ status: 200, text: '' });
  });

  it('has the form of OpenAPI 3.1', () => {
    expect(document.openapi).toMatch(/^3\.1\.\d+$/);
    expect(document.info).toMatchObject({ title: expect.any(String) as string, version: '1.0.0' });
    expect(document.servers).toEqual([{ url: '/v1' }]);
    const known = ['openapi', 'info', 'servers', 'security', 'tags', 'paths', 'components'];
    expect(known).toEqual(expect.arrayContaining(Object.keys(document as object)));
    const names = operations().map(({ operation }) => operation.operationId as string);
    expect(names.sort()).toEqual(['createPet', 'getKey', 'getPet', 'listKeyUsage', 'listPets', 'rotateKey']);
    for (const { path, operation } of operations()) {
      for (const status of Object.keys(operation.responses as object)) {
        const response = responseOf(operation, status);
        expect(response.description).toEqual(expect.any(String));
        const mediaTypes = status === '304' ? [] : ['application/json'];
        expect(Object.keys((response.content ?? {}) as object)).toEqual(mediaTypes);
        for (const { schema, example, examples } of Object.values((response.content ?? {}) as Record<string, any>)) {
          const bodies = examples
            ? Object.values(examples as object).map((one): unknown => deref(one).value)
            : [example];
          expect(bodies).not.toEqual([]);
          for (const body of bodies) expect(complaints(JSON.stringify(body), schema)).toEqual([]);
        }
        for (const header of Object.values(response.headers as object).map(deref)) {
          expect(header.schema.type).toMatch(/string|integer/);
          if (header.example !== undefined)
            expect(complaints(JSON.stringify(header.example), header.schema)).toEqual([]);
        }
      }
      const inPath = Array.from(path.matchAll(/\{(\w+)\}/g), ([, name]) => name);
      const declared = parametersOf(operation).filter((parameter) => parameter.in === 'path');
      expect(declared.map(({ name }) => name)).toEqual(inPath);
      expect(declared.every(({ required }) => required)).toBe(true);
    }
  });

  it('has no unresolved reference and no unused component', () => {
    const { securitySchemes: _, ...components } = document.components as Record<string, object>;
    const names = Object.entries(components).flatMap(([kind, parts]) =>
      Object.keys(parts).map((name) => `#/components/${kind}/${name}`),
    );
    expect([...collectReferences(document)].sort()).toEqual(names.sort());
    expect(Object.keys(components.schemas as object).sort()).toEqual(['Error', 'NewPet', 'Pet', 'PetStatus']);
  });

  it('requires a bearer key for every operation', () => {
    expect(document.components.securitySchemes.apiKey).toMatchObject({ type: 'http', scheme: 'bearer' });
    expect(document.security).toEqual([{ apiKey: [] }]);
    for (const { operation } of operations()) expect(operation).not.toHaveProperty('security');
  });

  it('states the bounds and the default of limit, the values of the status filter, and the type of after', () => {
    const [limit, status, after] = parametersOf(document.paths['/pets'].get);
    expect(limit).toMatchObject({ name: 'limit', in: 'query', required: false });
    expect(limit?.schema).toEqual({ type: 'integer', minimum: 1, maximum: 100, default: 20 });
    expect(status).toMatchObject({ name: 'status', in: 'query', required: false });
    expect(status?.schema).toMatchObject({ enum: ['available', 'pending', 'sold'] });
    expect(after).toMatchObject({ name: 'after', in: 'query', required: false });
    expect(after?.schema).toEqual({ type: 'integer', format: 'int64' });
    expect(document.paths['/pets'].get.responses['200'].headers).toHaveProperty('Link');
  });

  it('describes Pet, NewPet, PetStatus and Error as the interface document does', () => {
    const { Pet, NewPet, PetStatus, Error: error } = document.components.schemas;
    expect(PetStatus).toMatchObject({ type: 'string', enum: ['available', 'pending', 'sold'] });
    expect(NewPet).toMatchObject({ type: 'object', required: ['name', 'categoryId'], additionalProperties: false });
    expect(Object.keys(NewPet.properties as object)).toEqual(['name', 'categoryId', 'status']);
    expect(NewPet.properties.name).toMatchObject({ type: 'string', minLength: 1, maxLength: 255 });
    expect(Pet.required).toEqual(['id', 'name', 'categoryId']);
    for (const id of [Pet.properties.id, Pet.properties.categoryId, NewPet.properties.categoryId]) {
      expect(id).toMatchObject({ type: 'integer', format: 'int64' });
    }
    expect(Pet.properties.status).toMatchObject({ $ref: '#/components/schemas/PetStatus' });
    expect(error).toMatchObject({ type: 'object', required: ['code', 'message', 'status'] });
    expect(document.paths['/pets'].post.requestBody).toMatchObject({
      required: true,
      content: { 'application/json': { schema: { $ref: '#/components/schemas/NewPet' } } },
    });
  });

  it('marks only the lookup as deprecated, with an int64 identifier', () => {
    const lookup = document.paths['/pets/{petId}'].get;
    expect(lookup.deprecated).toBe(true);
    expect(lookup.description).toContain('5 December 2030');
    expect(Object.keys(lookup.responses['200'].headers as object)).toEqual(
      expect.arrayContaining(['Deprecation', 'Sunset', 'Link']),
    );
    expect(parametersOf(lookup)[0]?.schema).toEqual({ type: 'integer', format: 'int64' });
    expect(operations().filter(({ operation }) => operation.deprecated)).toHaveLength(1);
  });

  it('has a message that the server sends as the example of each 400 and of other refusals', async () => {
    const { '/pets': pets, '/pets/{petId}': lookup, '/key': key, '/key/usage': usage } = document.paths;
    const rotate = document.paths['/key/rotate'].post;
    const readOnly = createRestClient(gateway, (await gateway.createKey({ readOnly: true })).key);
    const rotated = createRestClient(gateway, (await gateway.createKey()).key);
    await rotated.send('POST', '/v1/key/rotate');
    const once = { 'Idempotency-Key': 'example' };
    await client.post('{"name":"Rex","categoryId":1}', once);
    const csv = { Accept: 'text/csv' };
    const answers: [any, Answer][] = [
      [pets.get, await client.get('/v1/pets?limit=500')],
      [pets.post, await client.post('{"name":"Rex","categoryId":"1"}')],
      [lookup.get, await client.get('/v1/pets/seven')],
      [key.get, await client.get('/v1/key?id=1')],
      [usage.get, await client.get('/v1/key/usage?days=500')],
      [rotate, await client.send('POST', '/v1/key/rotate?id=1')],
      [pets.get, await createRestClient(gateway).get('/v1/pets')],
      [lookup.get, await createRestClient(gateway).get('/v1/pets/1')],
      [pets.post, await readOnly.post('{}')],
      [lookup.get, await client.get('/v1/pets/99')],
      [pets.get, await client.get('/v1/pets', csv)],
      [lookup.get, await client.get('/v1/pets/1', csv)],
      [rotate, await rotated.send('POST', '/v1/key/rotate')],
      [pets.post, await client.post('{}', { 'Content-Type': 'text/plain' })],
      [pets.post, await client.post('{"name":"Max","categoryId":1}', once)],
    ];
    for (const [operation, { status, text }] of answers) {
      const { examples } = responseOf(operation, status).content['application/json'];
      expect(Object.values(examples as object).map((one): unknown => deref(one).value)).toContainEqual(
        JSON.parse(text),
      );
    }
    const statuses = new Set(answers.map(([, { status }]) => status));
    expect([...statuses].sort()).toEqual([400, 401, 403, 404, 406, 409, 415, 422]);
  });

  it('matches every response of the server and its headers', async () => {
    const once = createRestClient(gateway, (await gateway.createKey(ONE_REQUEST)).key);
    const readOnly = createRestClient(gateway, (await gateway.createKey({ readOnly: true })).key);
    const html = { Accept: 'text/html' };
    const known = { 'If-None-Match': '*' };
    const lookup = '/pets/{petId}';
    const added = await client.post('{"name":"Žofka","categoryId":9223372036854775807,"status":"pending"}');
    await client.post('{"name":"Flocke","categoryId":-9007199254740993}', { 'Idempotency-Key': 'flocke' });
    const answers: [string, 'get' | 'post', Answer][] = [
      ['/pets', 'post', added],
      ['/pets', 'post', await client.post('{')],
      ['/pets', 'post', await createRestClient(gateway).post('{}')],
      ['/pets', 'post', await readOnly.post('{}')],
      ['/pets', 'post', await client.post('{}', html)],
      ['/pets', 'post', await client.post('x'.repeat(3_000))],
      ['/pets', 'post', await client.post('{}', { 'Content-Type': 'text/plain' })],
      ['/pets', 'post', await client.post('{}', { 'Content-Encoding': 'gzip' })],
      ['/pets', 'post', await client.post('{"name":"Rex","categoryId":1}', { 'Idempotency-Key': 'flocke' })],
      ['/pets', 'get', await client.get('/v1/pets?limit=2')],
      ['/pets', 'get', await client.get('/v1/pets?limit=2', known)],
      ['/pets', 'get', await once.get('/v1/pets?status=pending&limit=1')],
      ['/pets', 'get', await once.get('/v1/pets')],
      ['/pets', 'get', await createRestClient(gateway, 'pets_wrong').get('/v1/pets')],
      ['/pets', 'get', await client.get('/v1/pets?limit=1e2')],
      ['/pets', 'get', await client.get('/v1/pets', html)],
      [lookup, 'get', await client.get(`/v1/pets/${added.body.id}`)],
      [lookup, 'get', await client.get(`/v1/pets/${added.body.id}`, known)],
      [lookup, 'get', await client.get('/v1/pets/-9')],
      [lookup, 'get', await client.get('/v1/pets/x')],
      [lookup, 'get', await client.get('/v1/pets/1', html)],
      [lookup, 'get', await createRestClient(gateway).get('/v1/pets/1')],
      [lookup, 'get', await once.get('/v1/pets/1')],
      ['/key', 'get', await client.get('/v1/key')],
      ['/key', 'get', await client.get('/v1/key', known)],
      ['/key', 'get', await createRestClient(gateway).get('/v1/key')],
      ['/key/usage', 'get', await client.get('/v1/key/usage')],
      ['/key/usage', 'get', await client.get('/v1/key/usage', known)],
      ['/key/usage', 'get', await client.get('/v1/key/usage?days=0')],
      ['/key/rotate', 'post', await client.send('POST', '/v1/key/rotate?overlap=0')],
      ['/key/rotate', 'post', await client.send('POST', '/v1/key/rotate')],
      ['/key/rotate', 'post', await client.send('POST', '/v1/key/rotate')],
    ];
    const repair = await breakReads(gateway);
    answers.push(['/pets', 'get', await client.get('/v1/pets?limit=99')]);
    answers.push([lookup, 'get', await client.get('/v1/pets/1')]);
    await repair();
    for (const [path, method, answer] of answers) expectDocumented(path, method, answer);
    const statuses = new Set(answers.map(([, , { status }]) => status));
    expect([...statuses].sort()).toEqual([200, 201, 304, 400, 401, 403, 404, 406, 409, 413, 415, 422, 429, 500]);
  });

  if (mode === 'server')
    it('matches the responses while the database is away', async () => {
      await client.get('/v1/pets');
      const access = await takeDatabaseAccess(gateway);
      await access.whileAway(async () => {
        expectDocumented('/pets', 'get', await client.get('/v1/pets?limit=98'), 503);
        expectDocumented('/pets', 'post', await client.post('{"name":"Rex","categoryId":1}'), 503);
        expectDocumented('/pets/{petId}', 'get', await client.get('/v1/pets/1'), 503);
      });
      await access.close();
    });

  it('accepts and refuses the parameters that the server accepts and refuses, and states its defaults', async () => {
    const { '/pets': pets, '/pets/{petId}': lookup, '/key/usage': usage } = document.paths;
    const [limit, status, after] = parametersOf(pets.get) as [Parameter, Parameter, Parameter];
    const [petId] = parametersOf(lookup.get) as [Parameter];
    const [days] = parametersOf(usage.get) as [Parameter];
    const [idempotencyKey] = parametersOf(pets.post) as [Parameter];
    const holder = createRestClient(gateway, (await gateway.createKey()).key);
    const long = 'x'.repeat(255);
    const cases: [Parameter, (text: string) => Promise<Answer>, string[]][] = [
      [limit, (text) => holder.get(`/v1/pets?limit=${text}`), ['-1', '0', '1', '100', '101', '1e1', '1.5', 'x', '']],
      [status, (text) => holder.get(`/v1/pets?status=${text}`), ['available', 'pending', 'sold', 'SOLD', 'gone', '']],
      [after, (text) => holder.get(`/v1/pets?after=${text}`), [...INT64S, 'x', '']],
      [petId, (text) => holder.get(`/v1/pets/${text}`), [...INT64S, 'x']],
      [days, (text) => holder.get(`/v1/key/usage?days=${text}`), ['0', '1', '366', '367', '1e1', '1.5', 'x', '']],
      [
        idempotencyKey,
        (text) => holder.post('{"name":"Rex","categoryId":1}', { 'Idempotency-Key': text }),
        [
          '!',
          '~',
          'a b',
          'a"',
          '"a b"',
          '"a\\""',
          '"a\\"',
          '"a',
          '""',
          '',
          long,
          `${long}x`,
          `"${long}"`,
          `"${long}x"`,
        ],
      ],
    ];
    for (const [{ name, schema }, send, texts] of cases) {
      for (const text of texts) {
        const value = /^-?\d/.test(text) ? new WrittenNumber(text) : text;
        const isAllowed = validate(value, schema, document as Record<string, unknown>).length === 0;
        expect((await send(text)).status !== 400, `${name}=${text}`).toBe(isAllowed);
      }
    }
    await gateway.sql(`INSERT INTO pets (name, category_id) SELECT 'Rex', 1 FROM generate_series(1, 30)`);
    expect((await holder.get('/v1/pets')).body).toHaveLength(limit.schema.default as number);
    const first = new Date(Date.now() - ((days.schema.default as number) - 1) * 86_400_000);
    expect((await holder.get('/v1/key/usage')).body.since).toBe(first.toISOString().slice(0, 10));
  });

  it('accepts and refuses the animals that the server accepts and refuses', async () => {
    const named = (name: unknown) => JSON.stringify({ name, categoryId: 1 });
    const texts = [
      ...['x', 'x'.repeat(255), 'x'.repeat(256), '猫'.repeat(255), '😺'.repeat(255), '😺'.repeat(256)].map(named),
      ...['', ' ', '\u00a0\n', ' x ', null, 1].map(named),
      ...[...INT64S, '"1"', 'null', 'true', '[]'].map((id) => `{"name":"Rex","categoryId":${id}}`),
      ...['"available"', '"pending"', '"sold"', '"SOLD"', '""', 'null', '1'].map(
        (status) => `{"name":"Rex","categoryId":1,"status":${status}}`,
      ),
      ...['{"name":"Rex"}', '{"categoryId":1}', '{"name":"Rex","categoryId":1,"id":1}', '[]', 'null', '1', '"Rex"'],
    ];
    const holder = createRestClient(gateway, (await gateway.createKey()).key);
    for (const text of texts) {
      const isAllowed = complaints(text, document.components.schemas.NewPet).length === 0;
      expect((await holder.post(text)).status, text).toBe(isAllowed ? 201 : 400);
    }
  });

  it('matches the refusal of an address without a valid key', async () => {
    const keyless = createRestClient(gateway);
    let answer = await keyless.get('/v1/pets');
    for (let i = 0; i < 60; i++) answer = await keyless.get('/v1/pets');
    expectDocumented('/pets', 'get', answer, 429);
  });

  it('refuses what the server refuses', () => {
    const check = (body: string) => complaints(body, document.components.schemas.NewPet);
    expect(check('{"name":"Rex","categoryId":9223372036854775807,"status":"sold"}')).toEqual([]);
    expect(check('{"name":"Rex"}')).toEqual(['$.categoryId is missing']);
    expect(check('{"name":"Rex","categoryId":1,"id":1}')).toEqual(['$.id is extra']);
    expect(check('{"name":"","categoryId":9223372036854775808}')).toEqual([
      '$.name is too short',
      '$.name has another form',
      '$.categoryId is no int64',
    ]);
    expect(check('{"name":"Rex","categoryId":1,"status":"SOLD"}')).toEqual(['$.status is none of the values']);
  });

  /** Expects that the document names the response with each of its headers, and that it has all that are named. */
  function expectDocumented(path: string, method: 'get' | 'post', answer: Answer, expected = answer.status): void {
    const { status, headers, text } = answer;
    const at = `${method} ${path} ${status}`;
    expect(status, at).toBe(expected);
    const operation = document.paths[path][method];
    expect(Object.keys(operation.responses as object), at).toContain(String(status));
    const response = responseOf(operation, status);
    if (status === 304) expect([text, response.content]).toEqual(['', undefined]);
    else expect(complaints(text, response.content['application/json'].schema), `${at} ${text}`).toEqual([]);
    for (const [name, part] of Object.entries(response.headers as object)) {
      const { schema, required } = deref(part);
      const value = headers.get(name);
      const isFree = !required && (MAY_BE_ABSENT[method].includes(name) || (status === 503 && name === 'Retry-After'));
      if (value === null) expect(isFree, `${at} has no ${name}`).toBe(true);
      else expect(complaints(schema.type === 'integer' ? value : JSON.stringify(value), schema), name).toEqual([]);
    }
    const named = Object.keys(response.headers as object).map((name) => name.toLowerCase());
    expect(
      [...headers.keys()].filter((name) => ![...named, ...NOT_NAMED].includes(name)),
      at,
    ).toEqual([]);
  }

  function responseOf(operation: any, status: number | string): any {
    return deref(operation.responses[status]);
  }

  function deref(part: any): any {
    return part.$ref === undefined ? part : resolve(part.$ref as string, document as Record<string, unknown>);
  }

  /** @param text - JSON */
  function complaints(text: string, schema: any): string[] {
    const value = parse(text, undefined, (number) => new WrittenNumber(number));
    return validate(value, schema as Record<string, unknown>, document as Record<string, unknown>);
  }

  function operations(): { path: string; operation: any }[] {
    return Object.entries(document.paths as Record<string, any>).flatMap(([path, item]) =>
      Object.values(item as Record<string, any>).map((operation) => ({ path, operation })),
    );
  }
});

/** The bounds of an int64, and what is none. */
const INT64S = [
  ...['-9223372036854775809', '-9223372036854775808', '-1', '0', '9007199254740993'],
  ...['9223372036854775807', '9223372036854775808', '1.5', '1e2'],
];

/** Headers that only some of the responses have for which they are named. */
const MAY_BE_ABSENT = { get: ['WWW-Authenticate'], post: ['Cache-Control', 'Accept', 'Accept-Encoding'] };

/** Headers that say nothing about this interface. In lower case. */
const NOT_NAMED = [
  ...['connection', 'content-length', 'content-type', 'date', 'keep-alive', 'transfer-encoding', 'vary'],
  'x-content-type-options',
];

const ONE_REQUEST = { plan: 'enterprise', limits: { perMinute: 1, perDay: 1 } } as const;

interface Parameter {
  readonly name: string;
  readonly in: string;
  readonly required: boolean;
  readonly schema: Readonly<Record<string, unknown>>;
}

function parametersOf(operation: any): readonly Parameter[] {
  return (operation.parameters ?? []) as Parameter[];
}

function collectReferences(part: unknown, found = new Set<string>()): Set<string> {
  if (Array.isArray(part)) for (const item of part as unknown[]) collectReferences(item, found);
  else if (isObject(part)) {
    for (const [name, value] of Object.entries(part)) {
      if (name === '$ref') found.add(value as string);
      else collectReferences(value, found);
    }
  }
  return found;
}
