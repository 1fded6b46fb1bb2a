import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startGateway, type Gateway } from '../support/gateway.js';

/** The messages for common mistakes: each says what was sent, what is expected, and what to do. */
describe('messages', () => {
  let gateway: Gateway;
  let key: string;

  beforeAll(async () => {
    gateway = await startGateway('server', { NODE_ENV: 'development' });
    ({ key } = await gateway.createKey({ plan: 'business' }));
  });
  afterAll(() => gateway.close());

  function send(path: string, init: RequestInit = {}, as = key): Promise<Response> {
    const headers = { Authorization: `Bearer ${as}`, 'Content-Type': 'application/json' };
    return gateway.fetch(path, { ...init, headers: { ...headers, ...(init.headers as Record<string, string>) } });
  }

  it.each([
    ['an empty body', '', 400, 'The request body is empty: send {"query": "{ pets { id } }"}.'],
    ['half a body', '{"query":', 400, 'The request body is not valid JSON: Unexpected end of JSON input.'],
    ['a word', 'nope', 400, "The request body is not valid JSON: Unexpected token 'o'."],
    [
      'variables as a string',
      '{"query": "{ pets { id } }", "variables": "{}"}',
      422,
      'The request body must have an object for variables, such as {"id": "1"}, and not its text.',
    ],
    [
      'variables as a list',
      '{"query": "{ pets { id } }", "variables": [1]}',
      422,
      'The request body must have an object for variables, such as {"id": "1"}, and not its text.',
    ],
    [
      'a misspelt query',
      '{"qeury": "{ pets { id } }"}',
      422,
      'The request body has no query, documentId or persistedQuery extension: send {"query": "{ pets { id } }"}.',
    ],
    ['an empty query', '{"query": ""}', 400, 'The query is empty: send {"query": "{ pets { id } }"}.'],
    [
      'an identifier without quotes that is no number',
      '{"query": "{ pet(id: abc) { id } }"}',
      422,
      'An ID must be a whole number such as "42", got a name, a list or an object.',
    ],
    [
      'a document as the body',
      '"{ pets { id } }"',
      422,
      'The request body must be an object such as {"query": "{ pets { id } }"}.',
    ],
    [
      'a query that is a number',
      '[{"query": "{ pets { id } }"}, {"query": 5}]',
      422,
      'Entry 1 of the batch must have a string for query.',
    ],
    ['an empty batch', '[]', 422, 'A batch holds 1 to 20 operations; this one has 0.'],
    [
      'a wrong operationName',
      '{"query": "query A { __typename } query B { __typename }", "operationName": "C"}',
      422,
      'The document has no such operation.',
    ],
    [
      'no operationName for three operations',
      '{"query": "query A { __typename } query B { __typename } query C { __typename }"}',
      422,
      'Choose an operation with operationName.',
    ],
    [
      'a mutation as a query',
      '{"query": "{ addPet(input: { name: \\"Rex\\", categoryId: 1 }) { id } }"}',
      422,
      'Cannot query field "addPet" on type "Query". Did you mean "pet"?',
    ],
    [
      'a query as a mutation',
      '{"query": "mutation { pets { id } }"}',
      422,
      'Cannot query field "pets" on type "Mutation".',
    ],
    [
      'a misspelt field',
      '{"query": "{ pet(id: 1) { nam } }"}',
      422,
      'Cannot query field "nam" on type "Pet". Did you mean "name"?',
    ],
    ['an empty selection', '{"query": "{ pets { } }"}', 400, 'Syntax Error: Expected Name, found "}".'],
    [
      'an identifier that is no number',
      '{"query": "{ pet(id: \\"abc\\") { id } }"}',
      200,
      'id must be a whole number such as 42 in plain digits, from -9223372036854775808 to 9223372036854775807, got "abc".',
    ],
    [
      'an identifier with leading zeros',
      '{"query": "{ pet(id: \\"007\\") { id } }"}',
      200,
      'id must be a whole number such as 42 in plain digits, from -9223372036854775808 to 9223372036854775807, got "007".',
    ],
    [
      'an identifier beyond 64 bits',
      '{"query": "{ pet(id: 9223372036854775808) { id } }"}',
      200,
      'id must be a whole number such as 42 in plain digits, from -9223372036854775808 to 9223372036854775807, got "9223372036854775808".',
    ],
    [
      'a limit that is too large',
      '{"query": "{ pets(limit: 500) { id } }"}',
      200,
      'limit must be a whole number from 1 to 100, got 500.',
    ],
  ])('GraphQL: %s', async (_, body, status, message) => {
    const response = await send('/graphql', { method: 'POST', body });
    const { errors } = [await response.json()].flat()[0] as { errors: { message: string }[] };
    expect([response.status, errors[0]?.message]).toEqual([status, message]);
  });

  it.each([
    [
      'an unknown property',
      '{"name": "Rex", "categoryId": 1, "tags": []}',
      'Unknown property "tags". A new animal takes name, categoryId and status.',
    ],
    ['an empty body', '', 'The request body is empty: send {"name": "Rex", "categoryId": 1}.'],
    ['a missing property', '{"name": "Rex"}', 'categoryId is required.'],
    [
      'an identifier in quotes',
      '{"name": "Rex", "categoryId": "1"}',
      'categoryId must be a number such as 42, without quotes, got "1".',
    ],
    [
      'an identifier with a fraction',
      '{"name": "Rex", "categoryId": 1.5}',
      'categoryId must be a whole number such as 42 in plain digits, from -9223372036854775808 to 9223372036854775807, got 1.5.',
    ],
    [
      'an upper-case status',
      '{"name": "Rex", "categoryId": 1, "status": "SOLD"}',
      'status must be one of "available", "pending", "sold", got "SOLD".',
    ],
  ])('POST /v1/pets: %s', async (_, body, message) => {
    const response = await send('/v1/pets', { method: 'POST', body });
    expect(await response.json()).toEqual({ code: 'invalid_request', message, status: 400 });
  });

  it.each([
    ['/v1/pets?page=2', 'Unknown parameter "page". A list takes limit, status and after.'],
    ['/v1/pets?page=2&offset=4', 'Unknown parameter "page", "offset". A list takes limit, status and after.'],
    ['/v1/pets?limit=1&limit=2', 'The query has the parameter "limit" twice.'],
    ['/v1/pets?limit=500', 'limit must be a whole number from 1 to 100, got 500.'],
    ['/v1/pets/1?fields=name', 'Unknown parameter "fields". This request takes none.'],
    [
      '/v1/pets/seven',
      'id must be a whole number such as 42 in plain digits, from -9223372036854775808 to 9223372036854775807, got "seven".',
    ],
  ])('GET %s', async (path, message) => {
    expect(await (await send(path)).json()).toEqual({ code: 'invalid_request', message, status: 400 });
  });

  const MISSING = 'The request has no bearer key: send your API key as "Authorization: Bearer <API_KEY>".';
  const INCOMPLETE = 'This is not a complete key: keys are pets_ followed by 38 characters.';
  it.each([
    ['undefined', 'Bearer undefined', INCOMPLETE],
    ['truncated', `Bearer pets_${'0'.repeat(37)}`, INCOMPLETE],
    ['in quotes', `Bearer "pets_${'0'.repeat(38)}"`, INCOMPLETE],
    ['the id of a key', 'Bearer key_0123456789ab', INCOMPLETE],
    ['unknown', `Bearer pets_${'0'.repeat(38)}`, 'The API key is unknown, revoked or expired.'],
    ['without Bearer', `pets_${'0'.repeat(38)}`, MISSING],
    ['only Bearer', 'Bearer', MISSING],
    ['another scheme', 'Basic cGV0czo=', MISSING],
  ])('401, a key that is %s', async (_, authorization, message) => {
    const headers = { Authorization: authorization };
    const body = '{"query": "{ pets { id } }"}';
    const graphql = (await (await send('/graphql', { method: 'POST', body, headers })).json()) as any;
    const rest = (await (await send('/v1/pets', { headers })).json()) as any;
    expect([graphql.errors[0].message, rest.message]).toEqual([message, message]);
  });

  it('401, a key in another header', async () => {
    const response = await gateway.fetch('/v1/pets', { headers: { 'x-api-key': key } });
    expect(await response.json()).toEqual({ code: 'unauthorized', message: MISSING, status: 401 });
  });

  it('GraphQL: a GET without a query', async () => {
    const { errors } = (await (await send('/graphql')).json()) as any;
    expect(errors[0].message).toBe(
      'The query string has no query, documentId or persistedQuery extension: send ?query={pets{id}}.',
    );
  });

  it('429: what it costs, what is left, and when to retry', async () => {
    const { key: small } = await gateway.createKey({ plan: 'enterprise', limits: { perMinute: 3, perDay: 4 } });
    const body = JSON.stringify({ query: '{ a: pets(limit: 1) { id } b: pets(limit: 2) { id } }' });
    await send('/graphql', { method: 'POST', body }, small);
    const { errors } = (await (await send('/graphql', { method: 'POST', body }, small)).json()) as any;
    expect(errors[0].message).toMatch(/^This costs 2, but only 1 of 3 a minute are left\. Retry in \d+ s\.$/);
    await send('/v1/pets', {}, small);
    const rest = (await (await send('/v1/pets', {}, small)).json()) as any;
    expect(rest.message).toMatch(/^This costs 1, but only 0 of 3 a minute are left\. Retry in \d+ s\.$/);
  });

  it('a trailing slash makes no difference', async () => {
    const body = '{"query": "{ __typename }"}';
    expect(await (await send('/graphql/', { method: 'POST', body })).json()).toEqual({ data: { __typename: 'Query' } });
    for (const path of ['/v1/pets/', '/v1/pets/?limit=1', '/v1/openapi.json/', '/livez/']) {
      expect([path, (await send(path)).status]).toEqual([path, 200]);
    }
    expect((await send('/v1/pets/404/')).status).toBe(404);
  });

  it('descriptions of operations and fragments, and isOneOf, are part of what the program reads', async () => {
    const query = `"""The first animals""" query List("How many" $n: Int!) { pets(limit: $n) { ...F } }
      "What a list shows" fragment F on Pet { id }`;
    expect((await gateway.graphql(query, { key, variables: { n: 1 } })).data).toEqual({ pets: [] });
    const { data } = await gateway.graphql('{ __type(name: "NewPet") { isOneOf } __schema { directives { name } } }');
    expect(data.__type).toEqual({ isOneOf: false });
    expect(data.__schema.directives).toContainEqual({ name: 'oneOf' });
  });
});
