import { parse } from 'lossless-json';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
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
      for (const [status, response] of Object.entries(operation.responses as Record<string, any>)) {
        expect(response.description).toEqual(expect.any(String));
        const mediaTypes = status === '304' ? [] : ['application/json'];
        expect(Object.keys((response.content ?? {}) as object)).toEqual(mediaTypes);
        for (const { example, examples } of Object.values((response.content ?? {}) as Record<string, any>))
          expect(Object.keys((example ?? examples) as object)).not.toEqual([]);
        for (const header of Object.values(response.headers as Record<string, any>))
          expect(header.schema.type).toMatch(/string|integer/);
      }
      const inPath = Array.from(path.matchAll(/\{(\w+)\}/g), ([, name]) => name);
      const declared = parametersOf(operation).filter((parameter) => parameter.in === 'path');
      expect(declared.map(({ name }) => name)).toEqual(inPath);
      expect(declared.every(({ required }) => required)).toBe(true);
    }
  });

  it('has no unresolved reference and no unused schema', () => {
    const references = collectReferences(document);
    for (const reference of references)
      expect(resolve(reference, document as Record<string, unknown>)).toBeTypeOf('object');
    const names = [...references].map((reference) => reference.replace('#/components/schemas/', ''));
    expect(names.sort()).toEqual(['Error', 'NewPet', 'Pet', 'PetStatus']);
    expect(Object.keys(document.components.schemas as object).sort()).toEqual(names);
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

  it('has a message that the server sends as the example of each 400', async () => {
    const exampleOf = (operation: any): unknown =>
      operation.responses['400'].content['application/json'].examples.invalid_request.value;
    const { '/pets': pets, '/pets/{petId}': lookup, '/key': key, '/key/usage': usage } = document.paths;
    const answers = [
      [pets.get, await client.get('/v1/pets?limit=500')],
      [pets.post, await client.post('{"name":"Rex","categoryId":"1"}')],
      [lookup.get, await client.get('/v1/pets/seven')],
      [key.get, await client.get('/v1/key?id=1')],
      [usage.get, await client.get('/v1/key/usage?days=500')],
    ] as const;
    for (const [operation, { text }] of answers) expect(JSON.parse(text)).toEqual(exampleOf(operation));
  });

  it('matches every response of the server and its headers', async () => {
    const once = createRestClient(gateway, (await gateway.createKey(ONE_REQUEST)).key);
    const html = { Accept: 'text/html' };
    const lookup = '/pets/{petId}';
    const added = await client.post('{"name":"Žofka","categoryId":9223372036854775807,"status":"pending"}');
    await client.post('{"name":"Flocke","categoryId":-9007199254740993}');
    const answers: [string, 'get' | 'post', Answer][] = [
      ['/pets', 'post', added],
      ['/pets', 'post', await client.post('{')],
      ['/pets', 'post', await createRestClient(gateway).post('{}')],
      ['/pets', 'post', await client.post('{}', html)],
      ['/pets', 'post', await client.post('x'.repeat(3_000))],
      ['/pets', 'post', await client.post('{}', { 'Content-Type': 'text/plain' })],
      ['/pets', 'get', await client.get('/v1/pets?limit=2')],
      ['/pets', 'get', await once.get('/v1/pets?status=pending&limit=1')],
      ['/pets', 'get', await once.get('/v1/pets')],
      ['/pets', 'get', await client.get('/v1/pets?limit=1e2')],
      ['/pets', 'get', await client.get('/v1/pets', html)],
      [lookup, 'get', await client.get(`/v1/pets/${added.body.id}`)],
      [lookup, 'get', await client.get('/v1/pets/-9')],
      [lookup, 'get', await client.get('/v1/pets/x')],
      [lookup, 'get', await createRestClient(gateway).get('/v1/pets/1')],
      [lookup, 'get', await once.get('/v1/pets/1')],
      ['/key', 'get', await client.get('/v1/key')],
      ['/key', 'get', await createRestClient(gateway).get('/v1/key')],
      ['/key/usage', 'get', await client.get('/v1/key/usage')],
      ['/key/usage', 'get', await client.get('/v1/key/usage?days=0')],
      ['/key/rotate', 'post', await client.send('POST', '/v1/key/rotate?overlap=0')],
      ['/key/rotate', 'post', await client.send('POST', '/v1/key/rotate')],
      ['/key/rotate', 'post', await client.send('POST', '/v1/key/rotate')],
    ];
    await breakReads(gateway);
    answers.push(['/pets', 'get', await client.get('/v1/pets?limit=99')]);
    for (const [path, method, { status, headers, text }] of answers) {
      const response = document.paths[path][method].responses[status];
      expect(response, `${method} ${path} ${status}`).toBeDefined();
      const value = parse(text, undefined, (number) => new WrittenNumber(number));
      const { schema } = response.content['application/json'];
      expect(validate(value, schema as Record<string, unknown>, document as Record<string, unknown>), text).toEqual([]);
      for (const name of Object.keys(response.headers as object))
        expect(headers.has(name), `${name} ${status}`).toBe(true);
    }
    const statuses = new Set(answers.map(([, , { status }]) => status));
    expect([...statuses].sort()).toEqual([200, 201, 400, 401, 404, 406, 409, 413, 415, 429, 500]);
  });

  it('refuses what the server refuses', () => {
    const schema = document.components.schemas.NewPet as Record<string, unknown>;
    const check = (body: string) =>
      validate(
        parse(body, undefined, (number) => new WrittenNumber(number)),
        schema,
        document as Record<string, unknown>,
      );
    expect(check('{"name":"Rex","categoryId":9223372036854775807,"status":"sold"}')).toEqual([]);
    expect(check('{"name":"Rex"}')).toEqual(['$.categoryId is missing']);
    expect(check('{"name":"Rex","categoryId":1,"id":1}')).toEqual(['$.id is extra']);
    expect(check('{"name":"","categoryId":9223372036854775808}')).toEqual([
      '$.name is too short',
      '$.categoryId is no int64',
    ]);
    expect(check('{"name":"Rex","categoryId":1,"status":"SOLD"}')).toEqual(['$.status is none of the values']);
  });

  function operations(): { path: string; operation: any }[] {
    return Object.entries(document.paths as Record<string, any>).flatMap(([path, item]) =>
      Object.values(item as Record<string, any>).map((operation) => ({ path, operation })),
    );
  }
});

const ONE_REQUEST = { plan: 'enterprise', limits: { perMinute: 1, perDay: 1 } } as const;

interface Parameter {
  readonly name: string;
  readonly in: string;
  readonly required: boolean;
  readonly schema: unknown;
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
