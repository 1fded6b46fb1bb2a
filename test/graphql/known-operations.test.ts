import { getLocation, Source } from 'graphql';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startGateway, MODES, type Gateway, type GraphqlAnswer } from '../support/gateway.js';

/** Operations, each with `%` where the test puts a directive, and the variables to send, as JSON text. */
const CASES: readonly (readonly [query: string, variables: readonly string[]])[] = [
  ['{ pets % { id name categoryId status } }', ['{}']],
  ['{ b: pets(limit: 2) % { n: name __typename } a: pets(limit: 2, status: SOLD) { status } __typename }', ['{}']],
  [
    '{ pet(id: 1) % { name } pet(id: 1) { id name again: name } other: pet(id: "2") { ...F } } fragment F on Pet { status }',
    ['{}'],
  ],
  ['{ ...F } fragment F on Query { pet(id: 404) % { name } ... on Query { pets(limit: 1) { id } } }', ['{}']],
  ['{ bad: pet(id: "007") % { id } worse: pets(limit: 0) { id } ok: pet(id: 1) { name } }', ['{}']],
  [
    'query ($id: ID!) { pet(id: $id) % { id name } }',
    [
      '{"id":1}',
      '{"id":"2"}',
      '{"id":9007199254740993}',
      '{"id":1.0}',
      '{"id":true}',
      '{"id":null}',
      '{}',
      '{"id":[1]}',
      '{"id":"x","y":1}',
    ],
  ],
  ['query ($id: ID = 2) { pet(id: $id) % { id } }', ['{}', '{"id":1}', '{"id":null}', '{"id":"x"}']],
  [
    'query ($n: Int = 2, $s: PetStatus) { pets(limit: $n, status: $s) % { name status } }',
    [
      '{}',
      '{"n":1}',
      '{"n":1.0}',
      '{"n":1e0}',
      '{"n":1.5}',
      '{"n":"1"}',
      '{"n":null}',
      '{"n":101}',
      '{"n":99999999999}',
      '{"n":true}',
    ],
  ],
  [
    'query ($s: PetStatus) { pets(status: $s) % { name } }',
    [
      '{"s":"SOLD"}',
      '{"s":null}',
      '{"s":"sold"}',
      '{"s":1}',
      '{"s":9007199254740993}',
      '{"s":"__proto__"}',
      '{"s":"toString"}',
    ],
  ],
  [
    'mutation ($i: NewPet!) { a: addPet(input: $i) % { name categoryId status } b: addPet(input: $i) { name } __typename }',
    [
      '{"i":{"name":"Rex","categoryId":9223372036854775807}}',
      '{"i":{"name":"Rex","categoryId":"1","status":"PENDING"}}',
      '{"i":{"name":"Rex","categoryId":1,"status":null}}',
      '{"i":{"name":" ","categoryId":1}}',
      '{"i":{"name":"Rex","categoryId":1.5}}',
      '{"i":{"name":5,"categoryId":1}}',
      '{"i":{"name":null,"categoryId":1}}',
      '{"i":{"name":"Rex"}}',
      '{"i":{"name":"Rex","categoryId":1,"id":1}}',
      '{"i":{"name":"Rex","categoryId":1,"__proto__":{"status":"SOLD"}}}',
      '{"i":[]}',
      '{"i":"Rex"}',
      '{"i":null}',
    ],
  ],
  [
    'mutation ($name: String!, $c: ID!, $s: PetStatus = SOLD) { addPet(input: { name: $name, categoryId: $c, status: $s }) % { name categoryId status } }',
    [
      '{"name":"Rex","c":9007199254740993}',
      '{"name":"Rex","c":1,"s":null}',
      '{"name":"Rex","c":1,"s":"PENDING"}',
      '{"name":"","c":1}',
      '{"name":"Rex","c":"+1"}',
      '{"name":1,"c":1}',
    ],
  ],
  ['{ pets % { dogs } }', ['{}']],
  ['query ($unused: Int) { pets % { id } }', ['{}']],
];

describe.each(MODES)('repeated operations, %s store', (mode) => {
  let gateway: Gateway;
  let key: string;

  beforeAll(async () => {
    gateway = await startGateway(mode);
    ({ key } = await gateway.createKey({ plan: 'enterprise', limits: { perMinute: 10_000, perDay: 100_000 } }));
    await gateway.sql(`INSERT INTO pets (name, category_id, status) VALUES
      ('Bella', 10, 'available'), ('Milo', 9007199254740993, 'sold'), ('Quote " \\', 30, NULL)`);
    await gateway.graphql('{ pets { id } }', { key });
  });
  afterAll(() => gateway.close());

  it.each(CASES)(
    'give the same response and cost when new, cached or sent with a directive: %s',
    async (query, variables) => {
      const plain = query.replaceAll('%', '');
      // A directive makes this another document, with the same result.
      const withDirective = query.replaceAll('%', '@include(if: true)');
      for (const rawVariables of variables) {
        const expected = await outcomeOf(withDirective, rawVariables);
        // The comment makes each document new.
        const first = await outcomeOf(`${plain} # ${rawVariables.replace(/\W/g, '')}`, rawVariables);
        expect(first, rawVariables).toEqual(expected);
        for (let i = 0; i < 2; i++) expect(await outcomeOf(plain, rawVariables), rawVariables).toEqual(expected);
      }
    },
  );

  it('report every invalid argument at its location, fragments included', async () => {
    const query =
      'query ($n: Int) { a: pets(limit: $n) { id } ...More } fragment More on Query { b: pets(limit: $n) { id } c: pets(limit: 1) { id } }';
    const columns = [...query.matchAll(/limit: (?=\$n)/g)].map(({ index }) => index + 'limit: '.length + 1);
    for (let i = 0; i < 3; i++) {
      const { text } = await gateway.graphql(query, { key, variables: { n: null } });
      const { data, errors } = JSON.parse(text) as { data: unknown; errors: { path: unknown; locations: unknown }[] };
      expect(data).toEqual({ a: null, b: null, c: [expect.objectContaining({ id: '1' })] });
      expect(errors.map(({ path, locations }) => ({ path, locations }))).toEqual([
        { path: ['a'], locations: [{ line: 1, column: columns[0] }] },
        { path: ['b'], locations: [{ line: 1, column: columns[1] }] },
      ]);
    }
  });

  it('name the places of field errors as graphql-js does, after any kind of line break', async () => {
    const query =
      '{\n a: pets(limit: 0) { id }\r\n\r  b: pets(limit: 0) { id } ...F }\r fragment F on Query { b: pets(limit: 0) { name } }';
    const { text } = await gateway.graphql(query, { key });
    const { errors } = JSON.parse(text) as { errors: { locations: unknown }[] };
    const places = (name: string) =>
      [...query.matchAll(new RegExp(`${name}: pets`, 'g'))].map(({ index }) => getLocation(new Source(query), index));
    expect(errors.map(({ locations }) => locations)).toEqual([places('a'), places('b')]);
  });

  it('are selected by operationName every time', async () => {
    const query = 'query A { a: pet(id: 1) { id } } query B { b: pet(id: 2) { id } } mutation M { __typename }';
    for (let i = 0; i < 3; i++) {
      expect((await gateway.graphql(query, { key, operationName: 'A' })).data).toEqual({ a: { id: '1' } });
      expect((await gateway.graphql(query, { key, operationName: 'B' })).data).toEqual({ b: { id: '2' } });
      expect((await gateway.graphql(query, { key, operationName: 'C' })).status).toBe(422);
      expect((await gateway.graphql(query, { key })).status).toBe(422);
    }
  });

  it('are refused without a valid key, and mutations also by GET', async () => {
    const query = 'mutation { addPet(input: { name: "Known", categoryId: 1 }) { name } }';
    expect((await gateway.graphql(query, { key })).data).toEqual({ addPet: { name: 'Known' } });
    for (const sent of [undefined, 'wrong']) {
      for (const text of [query, '{ pets { id } }']) {
        expect((await gateway.graphql(text, { key: sent })).status).toBe(401);
      }
    }
    const parameters = new URLSearchParams({ query }).toString();
    const get = await gateway.fetch(`/graphql?${parameters}`, { headers: { Authorization: `Bearer ${key}` } });
    expect([get.status, get.headers.get('allow')]).toEqual([405, 'POST']);
    expect(await gateway.sql(`SELECT id FROM pets WHERE name = 'Known'`)).toHaveLength(1);
  });

  it('are limited like new ones', async () => {
    const limited = await gateway.createKey({ plan: 'enterprise', limits: { perMinute: 3, perDay: 100 } });
    const query = '{ a: pet(id: 1) { id } b: pet(id: 2) { id } }';
    await gateway.graphql(query, { key });
    expect((await gateway.graphql(query, { key: limited.key })).status).toBe(200);
    for (let i = 0; i < 2; i++) {
      const { status, errors, text } = await gateway.graphql(query, { key: limited.key });
      expect([status, errors?.[0]?.extensions]).toMatchObject([429, { code: 'RATE_LIMITED', cost: 2 }]);
      expect(JSON.parse(text)).not.toHaveProperty('data');
    }
  });

  it.each([
    ['{ pets(limit: 2) { id @skip(if: true) } }', { pets: [{}, {}] }],
    ['{ pet(id: 1) { ... @include(if: false) { id } } }', { pet: {} }],
    [
      '{ rateLimit { windows { limit @skip(if: true) } plan } }',
      { rateLimit: { windows: [{}, {}], plan: mode === 'proxy' ? null : 'ENTERPRISE' } },
    ],
    [
      'query ($s: PetStatus = SOLD) { pets(limit: 1, status: $s) { name } __type(name: "Pet") { name } }',
      { pets: [{ name: 'Milo' }], __type: { name: 'Pet' } },
    ],
  ])('give what graphql-js gives, when new and when cached: %s', async (query, data) => {
    for (const _ of ['new', 'cached']) expect((await gateway.graphql(query, { key })).data).toEqual(data);
  });

  it('take no variable of another operation for a condition', async () => {
    const query = `query A($x: Boolean!) { ...F } fragment F on Query { pets @skip(if: $x) { id } }
      query B($x: ID!) { pet(id: $x) { id } }`;
    for (const id of ['1', '2']) {
      const { data } = await gateway.graphql(query, { key, operationName: 'B', variables: { x: id } });
      expect(data).toEqual({ pet: { id } });
    }
  });

  /** Returns the cost and everything a client sees of the response, except request ids and error locations. */
  async function outcomeOf(query: string, rawVariables: string) {
    const before = await remaining();
    const answer = await gateway.graphql(query, { key, rawVariables });
    const cost = before - (await remaining());
    return {
      status: answer.status,
      keys: Object.keys(JSON.parse(answer.text) as object).sort(),
      cost,
      ...bodyOf(answer),
    };
  }

  function bodyOf({ text, errors = [], headers }: GraphqlAnswer) {
    const { data, extensions } = JSON.parse(text) as { data?: unknown; extensions?: unknown };
    const seen = errors.map(({ message, path, extensions: { requestId, ...rest } }) => {
      expect(requestId).toBe(headers.get('x-request-id'));
      return { message, path, extensions: rest };
    });
    // Compared as text, to include the order of fields.
    return { data: JSON.stringify(data), extensions, errors: seen };
  }

  async function remaining(): Promise<number> {
    const { headers } = await gateway.graphql('{ __typename }', { key });
    return Number(headers.get('x-ratelimit-remaining'));
  }
});
