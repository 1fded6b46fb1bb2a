import { readFileSync } from 'node:fs';
import { buildSchema, execute, GraphQLError, parse } from 'graphql';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { StoreError } from '../../src/errors.js';
import type { Int64 } from '../../src/pets/int64.js';
import type { NewPet, Pet, PetStatus } from '../../src/pets/pet.js';
import type { PetSource } from '../../src/pets/pet-source.js';
import { createRandom, draw, STATUSES } from './drawn-operations.js';
import { startEngine, type Engine } from './engine.js';

// Operations are drawn at random and executed by this program and by graphql-js, which knows nothing of it: its schema
// is built from the SDL, and its resolvers are below.

const OPERATIONS = 400;
const seed = Number(process.env.SEED ?? Date.now() % 1_000_000);

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
  list: ({ limit, status, after = '0' as Int64 }) =>
    Promise.resolve(
      PETS.filter((pet) => status === undefined || pet.status === status.toUpperCase())
        .filter(({ id }) => Number(id) > Number(after))
        .slice(0, limit)
        .map(toStored),
    ),
  findMany: (ids) =>
    Promise.resolve(
      new Map(PETS.filter(({ id }) => ids.includes(id as Int64)).map((pet) => [pet.id as Int64, toStored(pet)])),
    ),
  add: (newPet: NewPet) =>
    newPet.name === 'fails'
      ? Promise.reject(new StoreError('unprocessable_request', 'This animal cannot be added.'))
      : Promise.resolve({ ...newPet, id: '77' as Int64 }),
};

const REFERENCE = {
  pets: ({ limit, status, after }: { limit: number; status?: string | null; after?: string }) => {
    if (limit < 1 || limit > 100) throw new GraphQLError('limit');
    const matching = PETS.filter((pet) => status == null || pet.status === status);
    return matching.filter(({ id }) => Number(id) > Number(after ?? 0)).slice(0, limit);
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
