import { afterAll, beforeAll, expect, it } from 'vitest';
import type { IdempotencyKey } from '../../src/pets/idempotency-key.js';
import type { Int64 } from '../../src/pets/int64.js';
import type { NewPet } from '../../src/pets/pet.js';
import type { PetSource } from '../../src/pets/pet-source.js';
import { startEngine, type Engine } from './engine.js';

const added: (readonly [string, IdempotencyKey | undefined])[] = [];
const source: PetSource = {
  list: () => Promise.resolve([]),
  findMany: () => Promise.resolve(new Map()),
  add: (newPet: NewPet, _, key) => {
    added.push([newPet.name, key]);
    return Promise.resolve({ ...newPet, id: '1' as Int64 });
  },
};
const add = (name: string): string => `addPet(input: { name: "${name}", categoryId: 1 }) { id }`;

let malformed: Engine;
let wellFormed: Engine;

beforeAll(async () => {
  malformed = await startEngine(source, { headers: { 'idempotency-key': 'two, keys' } });
  wellFormed = await startEngine(source, { headers: { 'idempotency-key': 'one-key' } });
});
afterAll(() => Promise.all([malformed.stop(), wellFormed.stop()]));

it.each([
  ['a query', '{ pets { id } }', { pets: [] }],
  ['a mutation that adds nothing', 'mutation { __typename }', { __typename: 'Mutation' }],
  ['a mutation whose additions are refused', `mutation { ${add(' ')} }`, { addPet: null }],
])('a malformed Idempotency-Key does not matter to %s', async (_, query, data) => {
  expect((await malformed.run(query)).data).toEqual(data);
});

it('a malformed Idempotency-Key refuses the operations of a batch that add', async () => {
  const bodies = await malformed.execute([{ query: '{ pets { id } }' }, { query: `mutation { ${add('Rex')} }` }]);
  const [query, mutation] = bodies.map((body) => JSON.parse(body) as { data?: unknown; errors?: object[] });
  expect(query?.data).toEqual({ pets: [] });
  expect(mutation).toMatchObject({ errors: [{ extensions: { code: 'BAD_REQUEST' } }] });
  expect(added).toEqual([]);
});

it('each addition has a key of its own', async () => {
  await wellFormed.execute([
    { query: `mutation { a: ${add('first')} b: ${add('second')} }` },
    { query: `mutation { ${add('third')} }` },
  ]);
  const values = added.map(([, key]) => key?.value);
  expect(values[0]).toBe('one-key');
  expect(new Set(values).size).toBe(3);
});
