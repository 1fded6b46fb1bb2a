import { getIntrospectionQuery } from 'graphql';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { PetSource } from '../../src/pets/pet-source.js';
import { startEngine, type Engine } from './engine.js';

const repeat = (count: number, part: (index: number) => string) =>
  Array.from({ length: count }, (_, i) => part(i)).join(' ');
const unused = (): never => {
  throw new Error('nothing is asked of the store');
};
const source: PetSource = { list: unused, findMany: unused, add: unused };

describe('a document that asks for too much', () => {
  let engine: Engine;

  beforeAll(async () => {
    engine = await startEngine(source);
  });
  afterAll(() => engine.stop());

  it.each([
    [
      'one field in selections that merge',
      `{ ${repeat(19, () => `p: pets { ${'id '.repeat(49)} }`)} }`,
      'A document may have 50 fields of one name in one place; this one has more.',
    ],
    [
      'one field in fragments that merge',
      `{ ${repeat(15, (i) => `p: pets { ${repeat(6, (j) => `...F${6 * i + j}`)} }`)} }
       ${repeat(90, (i) => `fragment F${i} on Pet { ${repeat(4, (j) => `a${j}: id`)} }`)}`,
      'A document may have 50 fields of one name in one place; this one has more.',
    ],
    [
      'a long alias, which a thousand errors could repeat',
      `{ pets(limit: 100) { ${'a'.repeat(201)}: status } }`,
      'A document may have 200 characters in the name of a field; this one has more.',
    ],
    [
      'a hundred fragments',
      `{ pets { ${repeat(100, (i) => `...F${i}`)} } } ${repeat(100, (i) => `fragment F${i} on Pet { a${i}: id }`)}`,
      'A document may have 100 operations and fragments; this one has more.',
    ],
    [
      'many operations with many variables of a fragment',
      `${repeat(90, (i) => `query Q${i}($a: Boolean!) { ...F }`)}
       fragment F on Query { pets { ${repeat(250, (i) => `a${i}: id @skip(if: $a)`)} } }`,
      'A document may have 3000 selections, fragments expanded; this one has more.',
    ],
    [
      'the same fragments in many selections that merge',
      `{ ${repeat(19, () => `p: pets { ${repeat(70, (i) => `...F${i}`)} }`)} }
       ${repeat(70, (i) => `fragment F${i} on Pet { a${i}: id }`)}`,
      'The document takes too long to validate: repeat fewer fields and fragments.',
    ],
    [
      'a hundred times the schema',
      `{ ${repeat(100, (i) => `a${i}: __schema { types { fields { type { name } } } }`)} }`,
      'A document may have 150 introspection fields with selections of their own; this one has more.',
    ],
  ])('is refused: %s', async (_, query, message) => {
    const { data, errors } = await engine.run(query);
    expect(data).toBeUndefined();
    expect(errors).toMatchObject([{ message, extensions: { code: 'BAD_REQUEST' } }]);
  });

  it.each([
    ['no more than the usual tools', getIntrospectionQuery()],
    ['twenty components, each with the fields of an animal', repeat(20, () => 'pets(limit: 1) { id name }')],
  ])('is not one with %s', async (_, query) => {
    const { errors = [] } = await engine.run(query.startsWith('pets') ? `{ ${query} }` : query);
    expect(errors.map(({ extensions }) => extensions.code)).not.toContain('BAD_REQUEST');
  });
});

describe('a variable', () => {
  it('gets suggestions only in a short request, because they take long', async () => {
    const engine = await startEngine(source);
    const query = 'query ($s: PetStatus) { pets(status: $s) { id } }';
    const [short = ''] = await engine.execute([{ query, variables: { s: 'AVAILABL' } }]);
    const [long = ''] = await engine.execute([{ query, variables: { s: 'AVAILABL' } }], 20_001);
    await engine.stop();
    expect(short).toContain('Did you mean the enum value');
    expect(long).toContain('does not exist');
    expect(long).not.toContain('Did you mean');
  });

  it.each([
    ['limit', 'query ($v: Int) { pets(limit: $v) { id } }'],
    ['input', 'mutation ($v: String = "x") { addPet(input: { name: $v, categoryId: 1 }) { id } }'],
  ])('must not be null in the argument %s', async (name, query) => {
    const engine = await startEngine(source);
    const { errors } = await engine.run(query, { v: null });
    await engine.stop();
    expect(errors?.map(({ message }) => message)).toEqual([`A variable in the argument "${name}" must not be null.`]);
  });
});
