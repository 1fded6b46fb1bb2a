import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { MODES, startGateway, type Gateway } from '../support/gateway.js';

interface Sent {
  readonly query: string;
  readonly variables?: string;
  readonly operationName?: string;
  readonly method?: 'GET';
  readonly accept?: string;
  readonly keyless?: boolean;
}

const SELECTIONS = [
  'id',
  'id name',
  'name n2: name status __typename',
  '...F',
  '... on Pet { id ... { status } } categoryId',
];
const FRAGMENT = 'fragment F on Pet { status categoryId other: id }';
const IDS = ['1', '"2"', '99', '"007"', '"9223372036854775808"', '9007199254740993', '-5', 'true', '1.5', '""'];
const LIMITS = ['1', '2', '100', '0', '101', '-1'];
const VARIABLE_IDS = [
  '"1"',
  '2',
  '9007199254740993',
  '1e3',
  '1.0',
  'true',
  'null',
  '"x"',
  '[1]',
  '{}',
  '99999999999999999999',
];
const NAMES = ['"Rex"', '"Ä \\"quoted\\" \\u0007"', '""', '"   "', '5', 'null', `"${'x'.repeat(256)}"`];

function withFragment(selection: string): string {
  return selection.includes('...F') ? ` ${FRAGMENT}` : '';
}

/** Requests of every kind, most of which the direct lane takes, and errors of every kind among them. */
const CORPUS: readonly Sent[] = [
  ...SELECTIONS.map((selection) => ({ query: `{ pets { ${selection} } }${withFragment(selection)}` })),
  ...SELECTIONS.map((selection) => ({ query: `{ pet(id: 1) { ${selection} } }${withFragment(selection)}` })),
  ...SELECTIONS.flatMap((selection) =>
    IDS.map((id) => ({
      query: `query($id: ID!) { found: pet(id: $id) { ${selection} } pets(limit: 1) { ${selection} } }${withFragment(selection)}`,
      variables: `{"id":${id}}`,
    })),
  ),
  ...IDS.map((id) => ({ query: `{ a: pet(id: ${id}) { id } pets(limit: 1) { id } }` })),
  ...LIMITS.map((limit) => ({ query: `{ pets(limit: ${limit}) { name } pet(id: 1) { id } }` })),
  ...['AVAILABLE', 'SOLD', 'PENDING', 'null', 'EATEN', '"SOLD"'].map((status) => ({
    query: `{ pets(status: ${status}) { id status } }`,
  })),
  ...VARIABLE_IDS.map((id) => ({
    query: 'query($id: ID!) { pet(id: $id) { id } pets(limit: 1) { id } }',
    variables: `{"id":${id}}`,
  })),
  ...[
    '{}',
    '{"n":5}',
    '{"n":null}',
    '{"n":"5"}',
    '{"n":2.5}',
    '{"n":200}',
    '{"s":"SOLD"}',
    '{"s":null}',
    '{"s":"sold"}',
    '{"x":1}',
  ].map((variables) => ({ query: 'query($n: Int, $s: PetStatus) { pets(limit: $n, status: $s) { id } }', variables })),
  ...['{}', '{"n":3}', '{"n":null}'].map((variables) => ({
    query: 'query($n: Int! = 2) { pets(limit: $n) { id } }',
    variables,
  })),
  ...['{}', '{"id":null}', '{"id":"2"}'].map((variables) => ({
    query: 'query($id: ID = "1") { pet(id: $id) { id } }',
    variables,
  })),
  ...NAMES.map((name) => ({
    query: 'mutation($input: NewPet!) { a: addPet(input: $input) { id name status } b: addPet(input: $input) { id } }',
    variables: `{"input":{"name":${name},"categoryId":9007199254740993,"status":"SOLD"}}`,
  })),
  ...[
    '{"name":"x"}',
    '{"name":"x","categoryId":1,"id":5}',
    '{"name":"x","categoryId":true}',
    '{"name":"x","categoryId":1,"status":null}',
  ].map((input) => ({
    query: 'mutation Add($input: NewPet!) { addPet(input: $input) { id categoryId status } }',
    variables: `{"input":${input}}`,
  })),
  {
    query: 'mutation($n: String!) { addPet(input: { name: $n, categoryId: "7" }) { name } }',
    variables: '{"n":"Nested"}',
  },
  {
    query:
      'mutation { addPet(input: { name: "Lit", categoryId: 9223372036854775807, status: PENDING }) { id status } __typename }',
  },
  { query: 'mutation { addPet(input: { name: "x", categoryId: 1 }) { id } }', method: 'GET' },
  { query: 'query A { pets(limit: 1) { id } } query B { pet(id: 2) { name } }', operationName: 'B' },
  { query: 'query A { pets(limit: 1) { id } } query B { pet(id: 2) { name } }', operationName: 'A' },
  { query: 'query A { pets(limit: 1) { id } } query B { pet(id: 2) { name } }', operationName: 'C' },
  { query: 'query A { pets(limit: 1) { id } } query B { pet(id: 2) { name } }' },
  { query: '{ same: pet(id: 1) { id } same: pet(id: 1) { name } other: pet(id: 1) { id } }' },
  { query: '{ same: pet(id: 1) { id } same: pet(id: 2) { id } }' },
  { query: '{ __typename pets(limit: 1) { __typename } }' },
  {
    query: 'query($yes: Boolean!) { pets(limit: 1) @include(if: $yes) { id } pet(id: 1) @skip(if: $yes) { id } }',
    variables: '{"yes":true}',
  },
  { query: 'query($yes: Boolean!) { pets(limit: 1) { id name @include(if: $yes) } }', variables: '{"yes":false}' },
  { query: '{ rateLimit { plan windows { seconds limit } } }' },
  { query: '{ __schema { queryType { name } } }' },
  { query: '{ __type(name: "Pet") { name } }', keyless: true },
  { query: '{ pets { id } }', keyless: true },
  { query: '{ nope }' },
  { query: '{ pets { nope } }' },
  { query: '{ pets' },
  { query: '' },
  { query: '{ pets(limit: "x") { id } }' },
  { query: 'subscription { pets { id } }' },
  { query: `{ ${Array.from({ length: 101 }, (_, i) => `p${i}: pet(id: ${i}) { id }`).join(' ')} }` },
  { query: `{ ${Array.from({ length: 50 }, (_, i) => `p${i}: pet(id: ${i}) { id name }`).join(' ')} }` },
  { query: '{ pets(limit: 2) { id } }', accept: 'application/graphql-response+json' },
  { query: '{ nope }', accept: 'application/graphql-response+json' },
  { query: '{ pets(limit: 2) { id } }', accept: 'text/plain' },
  { query: '{ pets(limit: 2) { id } }', method: 'GET' },
];

describe.each(MODES)('the direct lane and the way through Apollo, %s store', (mode) => {
  let direct: Gateway;
  let apollo: Gateway;

  beforeAll(async () => {
    [direct, apollo] = await Promise.all([
      startGateway(mode, { INTROSPECTION: 'true' }, { directLane: true }),
      startGateway(mode, { INTROSPECTION: 'true' }, { directLane: false }),
    ]);
    for (const gateway of [direct, apollo]) {
      await gateway.sql(`INSERT INTO pets (name, category_id, status) VALUES
        ('Bella', 1, 'available'), ('Mi"lo', 9007199254740993, 'sold'), ('ハチ', -1, NULL)`);
    }
  });
  afterAll(async () => {
    await direct.close();
    await apollo.close();
  });

  async function answersOf(gateway: Gateway): Promise<string[]> {
    const limits = { perMinute: 1_000_000, perDay: 2_000_000 };
    const { key } = await gateway.createKey({ plan: 'enterprise', limits });
    const answers: string[] = [];
    // Twice, so that the second time every document is known.
    for (const [index, sent] of [...CORPUS, ...CORPUS].entries()) {
      const response = await ask(gateway, sent, key, `request-${index}`);
      const headers = [...response.headers]
        .filter(([name]) => !/^(date|x-ratelimit-reset|ratelimit)$/.test(name))
        .sort();
      answers.push(JSON.stringify([sent, response.status, headers, await response.text()], null, 1));
    }
    return answers;
  }

  function ask(gateway: Gateway, sent: Sent, key: string, requestId: string): Promise<Response> {
    const { query, variables, operationName, method, accept, keyless } = sent;
    const headers = {
      'Content-Type': 'application/json',
      'X-Request-Id': requestId,
      ...(accept !== undefined && { Accept: accept }),
      ...(!keyless && { Authorization: `Bearer ${key}` }),
    };
    if (method === 'GET') return gateway.fetch(`/graphql?${new URLSearchParams({ query }).toString()}`, { headers });
    const members = [
      `"query":${JSON.stringify(query)}`,
      ...(variables === undefined ? [] : [`"variables":${variables}`]),
      ...(operationName === undefined ? [] : [`"operationName":"${operationName}"`]),
    ];
    return gateway.fetch('/graphql', { method: 'POST', headers, body: `{${members.join()}}` });
  }

  it('give the same answers, status, headers and bytes', async () => {
    const [fromDirect, fromApollo] = await Promise.all([answersOf(direct), answersOf(apollo)]);
    expect(CORPUS.length).toBeGreaterThan(100);
    for (const [index, answer] of fromDirect.entries()) expect(answer).toBe(fromApollo[index]);
  });
});
