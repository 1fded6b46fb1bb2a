import { getIntrospectionQuery } from 'graphql';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startGateway, MODES, type Gateway, type GraphqlOptions } from '../support/gateway.js';

type Case = readonly [title: string, cost: number, query: string, variables?: Record<string, unknown>];

interface Operation {
  readonly title: string;
  readonly cost: number;
  readonly query: string;
  readonly variables: Record<string, unknown>;
}

const toOperation = ([title, cost, query, variables = {}]: Case): Operation => ({ title, cost, query, variables });

const INPUT = 'input: { name: "Rex", categoryId: 1 }';

const ALIASES: readonly Case[] = [
  ['one list', 1, '{ pets { id } }'],
  ['one lookup', 1, '{ pet(id: 1) { id } }'],
  ['an absent animal', 1, '{ pet(id: 404) { id } }'],
  ['a list and a lookup', 2, '{ pets { id } pet(id: 1) { id } }'],
  ['aliases of different ids', 3, '{ a: pet(id: 1) { id } b: pet(id: 2) { id } c: pet(id: 3) { id } }'],
  ['aliases of different limits', 2, '{ a: pets(limit: 1) { id } b: pets(limit: 2) { id } }'],
  ['aliases of different pages', 3, '{ a: pets(after: 1) { id } b: pets(after: 2) { id } c: pets { id } }'],
  ['aliases of different statuses', 2, '{ a: pets(status: SOLD) { id } b: pets(status: PENDING) { id } }'],
  [
    'a hundred different lookups',
    100,
    `{ ${Array.from({ length: 100 }, (_, i) => `a${i}: pet(id: ${i}) { id }`).join(' ')} }`,
  ],
];

const EQUAL_FIELDS: readonly Case[] = [
  ['aliases of one list', 1, '{ a: pets { id } b: pets { name } }'],
  ['a default and the same value written out', 1, '{ a: pets { id } b: pets(limit: 20) { id } }'],
  ['status null and status omitted', 1, '{ a: pets(status: null) { id } b: pets { id } }'],
  ['after null and after omitted', 1, '{ a: pets(after: null) { id } b: pets { id } }'],
  ['one page, its id as a number and as a string', 1, '{ a: pets(after: 1) { id } b: pets(after: "1") { id } }'],
  ['an id as a number and as a string', 1, '{ a: pet(id: 1) { id } b: pet(id: "1") { id } }'],
  ['one response key selected twice', 1, '{ pet(id: 1) { id } pet(id: 1) { name } }'],
  [
    'an id in a literal and in a variable',
    1,
    'query ($id: ID!) { a: pet(id: 1) { id } b: pet(id: $id) { id } }',
    { id: '1' },
  ],
  [
    'a literal and the default of a variable',
    1,
    'query ($n: Int! = 7) { a: pets(limit: $n) { id } b: pets(limit: 7) { id } }',
  ],
  [
    'an absent variable and the default of the argument',
    1,
    'query ($n: Int = 20) { a: pets(limit: $n) { id } b: pets { id } }',
  ],
  ['an absent variable for status', 1, 'query ($s: PetStatus) { a: pets(status: $s) { id } b: pets { id } }'],
  [
    'equal arguments in different order',
    1,
    '{ a: pets(limit: 5, status: SOLD) { id } b: pets(status: SOLD, limit: 5) { id } }',
  ],
];

const FRAGMENTS: readonly Case[] = [
  ['a fragment', 2, 'query { ...F } fragment F on Query { a: pet(id: 1) { id } b: pet(id: 2) { id } }'],
  [
    'a fragment spread twice',
    2,
    'query { ...F ...F } fragment F on Query { a: pet(id: 1) { id } b: pet(id: 2) { id } }',
  ],
  [
    'a fragment in a fragment',
    2,
    '{ ...F } fragment F on Query { a: pet(id: 1) { id } ...G } fragment G on Query { pets { id } }',
  ],
  ['an inline fragment', 2, '{ pets { id } ... on Query { pet(id: 1) { id } } }'],
  ['an inline fragment without a type', 1, '{ ... { pets { id } } }'],
  ['fragments below the root', 1, '{ pets { ...P ... on Pet { name } } } fragment P on Pet { id }'],
];

const DIRECTIVES: readonly Case[] = [
  ['a skipped field', 1, '{ pets { id } pet(id: 1) @skip(if: true) { id } }'],
  ['a field not included', 1, '{ pets { id } pet(id: 1) @include(if: false) { id } }'],
  [
    'a field included by a variable',
    2,
    'query ($v: Boolean!) { pets { id } pet(id: 1) @include(if: $v) { id } }',
    { v: true },
  ],
  [
    'a field not included by a variable',
    1,
    'query ($v: Boolean!) { pets { id } pet(id: 1) @include(if: $v) { id } }',
    { v: false },
  ],
  [
    'a field skipped by the default of a variable',
    1,
    'query ($v: Boolean = true) { pets { id } pet(id: 1) @skip(if: $v) { id } }',
  ],
  [
    'a skipped spread',
    0,
    'query ($v: Boolean!) { ...F @skip(if: $v) } fragment F on Query { pets { id } }',
    { v: true },
  ],
  ['an inline fragment not included', 0, '{ ... @include(if: false) { pets { id } } __typename }'],
  ['a field both included and skipped', 0, '{ pets @include(if: true) @skip(if: true) { id } }'],
];

const FREE: readonly Case[] = [
  ['rateLimit', 0, '{ rateLimit { plan windows { remaining } } }'],
  ['__typename', 0, '{ __typename }'],
  ['introspection', 0, getIntrospectionQuery()],
  ['a syntax error', 0, '{ pets {'],
  ['a validation error', 0, '{ pets { id } dogs { id } }'],
  ['a missing variable', 0, 'query ($id: ID!) { pets { id } pet(id: $id) { id } }'],
  ['a variable of a wrong type', 0, 'query ($n: Int!) { pets(limit: $n) { id } }', { n: 'many' }],
  ['an unknown operation name', 0, 'query A { pets { id } } query B { pets { id } }'],
];

const REFUSED_ARGUMENTS: readonly Case[] = [
  ['a limit of 500', 0, '{ pets(limit: 500) { id } }'],
  ['a limit of null through a variable', 0, 'query ($n: Int = 1) { pets(limit: $n) { id } }', { n: null }],
  ['a bad id', 0, '{ pet(id: "007") { id } }'],
  ['a bad id beside a good one', 1, '{ pet(id: "007") { id } ok: pet(id: 1) { id } }'],
  ['a blank name', 0, 'mutation { addPet(input: { name: " ", categoryId: 1 }) { id } }'],
  [
    'a bad categoryId beside a good one',
    1,
    `mutation { a: addPet(input: { name: "x", categoryId: "x" }) { id } b: addPet(${INPUT}) { id } }`,
  ],
];

const MUTATIONS: readonly Case[] = [
  ['one addPet', 1, `mutation { addPet(${INPUT}) { id } }`],
  [
    'three equal addPets',
    3,
    `mutation { a: addPet(${INPUT}) { id } b: addPet(${INPUT}) { id } c: addPet(${INPUT}) { id } }`,
  ],
  [
    'addPets in a fragment',
    2,
    `mutation { ...F } fragment F on Mutation { a: addPet(${INPUT}) { id } b: addPet(${INPUT}) { id } }`,
  ],
  ['a skipped addPet', 1, `mutation { a: addPet(${INPUT}) { id } b: addPet(${INPUT}) @skip(if: true) { id } }`],
  ['one response key of addPet selected twice', 1, `mutation { addPet(${INPUT}) { id } addPet(${INPUT}) { name } }`],
];

describe.each(MODES)('the cost of operations, %s store', (mode) => {
  let gateway: Gateway;
  let key: string;

  beforeAll(async () => {
    gateway = await startGateway(mode);
    ({ key } = await gateway.createKey({ plan: 'enterprise', limits: { perMinute: 10_000, perDay: 1_000_000 } }));
  });
  afterAll(() => gateway.close());

  it.each(ALIASES.map(toOperation))('$title costs $cost', expectCost);
  it.each(EQUAL_FIELDS.map(toOperation))('$title cost $cost together', expectCost);
  it.each(FRAGMENTS.map(toOperation))('$title costs $cost', expectCost);
  it.each(DIRECTIVES.map(toOperation))('$title: costs $cost for the remaining fields', expectCost);
  it.each(FREE.map(toOperation))('$title costs $cost', expectCost);
  it.each(REFUSED_ARGUMENTS.map(toOperation))('$title costs $cost', expectCost);
  it.each(MUTATIONS.map(toOperation))('$title: costs $cost', expectCost);

  it('charges only the operation that operationName selects', async () => {
    const query = 'query A { pets { id } } query B { a: pet(id: 1) { id } b: pet(id: 2) { id } }';
    expect(await costOf(query, { operationName: 'A' })).toBe(1);
    expect(await costOf(query, { operationName: 'B' })).toBe(2);
  });

  it('treats a JSON number and a string with the same id as equal', async () => {
    const query =
      'query ($a: ID!, $b: ID!, $c: ID!) { a: pet(id: $a) { id } b: pet(id: $b) { id } c: pet(id: $c) { id } }';
    expect(
      await costOf(query, { rawVariables: '{"a":9007199254740992,"b":9007199254740993,"c":"9007199254740993"}' }),
    ).toBe(2);
  });

  it('charges nothing for a request without a valid key', async () => {
    expect(await costOf('{ pets { id } }', { key: 'wrong' })).toBe(0);
  });

  async function expectCost({ cost, query, variables }: Operation): Promise<void> {
    expect(await costOf(query, { variables })).toBe(cost);
  }

  /** Returns the cost as the difference between the limit headers before and after the operation. */
  async function costOf(query: string, options: GraphqlOptions): Promise<number> {
    const before = await remaining();
    await gateway.graphql(query, { key, ...options });
    return before - (await remaining()) - 1;
  }

  async function remaining(): Promise<number> {
    const { headers } = await gateway.graphql('{ pets(limit: 1) { id } }', { key });
    return Number(headers.get('x-ratelimit-remaining'));
  }
});
