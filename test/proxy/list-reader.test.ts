import { describe, expect, it } from 'vitest';
import { createListReader } from '../../src/proxy/list-reader.js';

const body = (...ids: number[]) => JSON.stringify(ids.map((id) => ({ id, name: `Animal ${id}`, categoryId: 1 })));
const idsOf = (pets: readonly { readonly id: string }[] | undefined) => pets?.map(({ id }) => id);

describe('reading the lists of another store', () => {
  it('returns the animals of each response, lowest id first', () => {
    const read = createListReader();
    expect(idsOf(read('/pets?limit=3', body(9, 10, 2)))).toEqual(['2', '9', '10']);
    expect(idsOf(read('/pets?limit=3', body(9, 10, 2)))).toEqual(['2', '9', '10']);
  });

  it('never confuses two responses', () => {
    const read = createListReader();
    expect(idsOf(read('/pets?limit=2', body(1, 2)))).toEqual(['1', '2']);
    expect(idsOf(read('/pets?limit=2', body(1, 3)))).toEqual(['1', '3']);
    expect(idsOf(read('/pets?limit=3', body(1, 2)))).toEqual(['1', '2']);
    expect(idsOf(read('/pets?limit=2', body(1, 2)))).toEqual(['1', '2']);
    expect(idsOf(read('/pets?limit=2', '[]'))).toEqual([]);
  });

  it('parses equal responses once, but invalid ones every time', () => {
    const read = createListReader();
    expect(read('/pets', body(1, 2))).toBe(read('/pets', body(1, 2)));
    for (let i = 0; i < 2; i++) expect(read('/pets', '{"id":1}')).toBeUndefined();
    expect(idsOf(read('/pets', body(1, 2)))).toEqual(['1', '2']);
  });

  it('does not cache long lists', () => {
    const read = createListReader();
    const long = JSON.stringify([{ id: 1, name: 'x'.repeat(20_000), categoryId: 1 }]);
    expect(read('/pets', long)).not.toBe(read('/pets', long));
    expect(read('/pets', long)).toEqual([{ id: '1', name: 'x'.repeat(20_000), categoryId: '1' }]);
  });
});
