import { readFileSync } from 'node:fs';
import { buildSchema, execute, GraphQLError, parse } from 'graphql';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { StoreError } from '../../src/errors.js';
import type { Int64 } from '../../src/pets/int64.js';
import type { NewPet, Pet, PetStatus } from '../../src/pets/pet.js';
import type { PetSource } from '../../src/pets/pet-source.js';
import { startEngine, type Engine } from './engine.js';

// Operations are drawn at random and executed by this program and by graphql-js, which knows nothing of it: its schema
// is built from the SDL, and its resolvers are below.

const OPERATIONS = 400;
const seed = Number(process.env.SEED ?? Date.now() % 1_000_000);

const STATUSES = ['AVAILABLE', 'PENDING', 'SOLD'] as const;
const PETS = Array.from({ length: 30 }, (_, index) => ({
  id: String(index + 1),
  name: ['Bella', 'Žofka', 'Quote " \\', '猫', '\u2028\u0001 tail'][index % 5] as string,
  categoryId: index % 7 === 0 ? '9007199254740993' : String(index % 4),
  status: [...STATUSES, null][index % 4] as (typeof STATUSES)[number] | null,
}));
const toStored = ({ id, name, categoryId, status }: (typeof PETS)[number]): Pet => ({
  id: id as Int64,
  name,
  categoryId: categoryId as Int64,
  ...(status && { status: status.toLowerCase() as PetStatus }),
});

const source: PetSource = {
  list: ({ limit, status }) =>
    Promise.resolve(
      PETS.filter((pet) => status === undefined || pet.status === status.toUpperCase())
        .slice(0, limit)
        .map(toStored),
    ),
  findMany: (ids) =>
    Promise.resolve(
      ids.map((id) => {
        const pet = PETS.find((one) => one.id === id);
        return pet && toStored(pet);
      }),
    ),
  add: (newPet: NewPet) =>
    newPet.name === 'fails'
      ? Promise.reject(new StoreError('unprocessable_request', 'This animal cannot be added.'))
      : Promise.resolve({ ...newPet, id: '77' as Int64 }),
};

const REFERENCE = {
  pets: ({ limit, status }: { limit: number; status?: string | null }) => {
    if (limit < 1 || limit > 100) throw new GraphQLError('limit');
    return PETS.filter((pet) => status == null || pet.status === status).slice(0, limit);
  },
  pet: ({ id }: { id: string }) => {
    const pet = PETS.find((one) => one.id === id);
    if (!pet) throw new GraphQLError('absent');
    return pet;
  },
  addPet: ({ input }: { input: { name: string } }) => {
    if (input.name.trim() === '' || input.name === 'fails') throw new GraphQLError('refused');
    return { status: null, ...input, id: '77' };
  },
};
const schema = buildSchema(readFileSync(new URL('../../schema/animal-store.graphql', import.meta.url), 'utf8'));

/** https://en.wikipedia.org/wiki/Linear_congruential_generator */
function createRandom(start: number) {
  let state = start;
  const next = (below: number): number => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
  return {
    next,
    pick: <T>(list: readonly T[]): T => list[next(list.length)] as T,
    chance: (n: number) => next(n) === 0,
  };
}

/** Draws a valid operation and its variables. */
function draw({ next, pick, chance }: ReturnType<typeof createRandom>) {
  const isMutation = chance(4);
  const type = isMutation ? 'Mutation' : 'Query';
  const many = (most: number, one: () => string): string => Array.from({ length: 1 + next(most) }, one).join(' ');
  const directive = (): string =>
    chance(3) ? ` @${pick(['skip', 'include'])}(if: ${pick(['true', 'false', '$yes', '$no'])})` : '';
  const leaf = (): string => {
    const name = pick(['id', 'name', 'categoryId', 'status', '__typename']);
    // An alias names its field, so that no two selections conflict.
    return `${chance(3) ? `${name.replaceAll('_', '')}${next(2)}: ` : ''}${name}${directive()}`;
  };
  const animal = (depth = 0): string =>
    many(4, () => {
      if (depth > 2 || chance(2)) return leaf();
      return pick([
        `...P${directive()}`,
        `...${directive()} { ${animal(depth + 1)} }`,
        `... on Pet { ${animal(depth + 1)} }`,
      ]);
    });
  let roots = 0;
  const root = (): string => {
    roots += 1;
    const alias = chance(5) ? '' : `r${roots}: `;
    if (chance(8)) return `${alias || `t${roots}: `}__typename${directive()}`;
    // Equal fields without an alias merge.
    if (isMutation) {
      const input = pick([
        '{ name: "Rex", categoryId: 7 }',
        '$input',
        '{ name: " ", categoryId: 1 }',
        '{ name: "fails", categoryId: $id }',
      ]);
      return `m${roots}: addPet(input: ${input})${directive()} { ${animal()} }`;
    }
    if (alias === '') return `pets(limit: 3)${directive()} { ${animal()} }`;
    if (chance(2)) return `${alias}pet(id: ${pick(['1', '"2"', '404', '$id'])})${directive()} { ${animal()} }`;
    const args = pick(['', '(limit: 2)', '(limit: $n)', '(status: $s)', '(limit: 0)', '(status: SOLD, limit: 5)']);
    return `${alias}pets${args}${directive()} { ${animal()} }`;
  };
  const body = many(4, () => (chance(6) ? `... on ${type}${directive()} { ${root()} ${root()} }` : root()));
  const fragment = `fragment P on Pet { ${many(3, leaf)} }`;
  const variables = {
    yes: true,
    no: false,
    ...(chance(2) && { id: pick<unknown>(['1', 2, '404']) }),
    ...(chance(2) && { n: pick<unknown>([1, 2, 200, null]) }),
    ...(chance(2) && { s: pick<unknown>([...STATUSES, null]) }),
    input: {
      name: pick(['Rex', '猫', ' ']),
      categoryId: pick<unknown>(['5', 6]),
      ...(chance(2) && { status: pick([...STATUSES, null]) }),
    },
  };
  const definitions = '$yes: Boolean!, $no: Boolean!, $id: ID! = 3, $n: Int = 4, $s: PetStatus, $input: NewPet!';
  // All variables and the fragment have to be used.
  const used = isMutation
    ? 'u: addPet(input: { name: "used", categoryId: $id }) @skip(if: $no) { id @include(if: $yes) ...P } v: addPet(input: $input) { status }'
    : 'u: pets(limit: $n, status: $s) @skip(if: $no) { id @include(if: $yes) ...P } v: pet(id: $id) { id }';
  const names = isMutation
    ? definitions.replace('$n: Int = 4, $s: PetStatus, ', '')
    : definitions.replace(', $input: NewPet!', '');
  return { query: `${type.toLowerCase()} Q(${names}) { ${body} ${used} } ${fragment}`, variables };
}

let engine: Engine;

beforeAll(async () => {
  engine = await startEngine(source);
});
afterAll(() => engine.stop());

it(`responses equal those of graphql-js, seed ${seed}`, async () => {
  const random = createRandom(seed);
  let failed = 0;
  for (let count = 0; count < OPERATIONS; count += 1) {
    const { query, variables } = draw(random);
    const document = parse(query);
    const expected = await execute({ schema, document, rootValue: REFERENCE, variableValues: variables });
    // The second time, the operation is known.
    for (const time of ['new', 'known']) {
      const actual = await engine.run(query, variables);
      const about = `${time}, seed ${seed}: ${query} ${JSON.stringify(variables)} ${JSON.stringify(actual.errors)}`;
      // As text, to compare the order of fields as well.
      expect(JSON.stringify(actual.data), about).toBe(JSON.stringify(expected.data));
      const placesOf = (errors: readonly Pick<GraphQLError, 'path' | 'locations'>[] = []) =>
        errors.map(({ path, locations }) => JSON.stringify([path, locations])).sort();
      expect(placesOf(actual.errors as never), about).toEqual(placesOf(expected.errors));
      failed += actual.errors ? 1 : 0;
    }
  }
  // Otherwise the draw has become one-sided.
  expect(failed).toBeGreaterThan(OPERATIONS / 5);
  expect(failed).toBeLessThan(2 * OPERATIONS);
});

it.each(['{ pets(limt: 1) { id } }', '{ pet { id } }', '{ pets { nam } }', '{ pets { id }'])(
  'errors of requests are worded as by graphql-js: %s',
  async (query) => {
    const { graphql } = await import('graphql');
    const { errors: [expected] = [] } = await graphql({ schema, source: query });
    const { errors: [actual] = [], data } = await engine.run(query);
    expect(data).toBeUndefined();
    expect([actual?.message, actual?.locations]).toEqual([expected?.message, expected?.locations]);
  },
);
