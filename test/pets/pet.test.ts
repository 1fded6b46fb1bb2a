import { describe, expect, it } from 'vitest';
import { StoreError } from '../../src/errors.js';
import { isLimit, isName, parseNewPet, parsePetQuery, type UntrustedNewPet } from '../../src/pets/pet.js';

function refusalOf(work: () => unknown): StoreError {
  try {
    work();
  } catch (error) {
    if (error instanceof StoreError) return error;
  }
  throw new Error('it was not refused');
}

describe('a limit', () => {
  it.each([1, 2, 20, 99, 100])('may be %d', (limit) => {
    expect(isLimit(limit)).toBe(true);
    expect(parsePetQuery({ limit })).toEqual({ limit });
  });

  it.each([0, -1, 101, 1e9, 1.5, 99.999, NaN, Infinity, -Infinity])('may not be %d', (limit) => {
    expect(isLimit(limit)).toBe(false);
    expect(refusalOf(() => parsePetQuery({ limit }))).toMatchObject({
      code: 'invalid_request',
      message: expect.stringContaining(`1 to 100, got ${limit}`) as string,
    });
  });
});

describe('a name', () => {
  it.each([
    'x',
    'Bella',
    ' x ',
    '\u00a0x',
    '.',
    '\u200b',
    '\u0001',
    '\u007f',
    '\ufffd',
    '\uffff',
    '猫',
    '😀',
    'e\u0301',
    'x'.repeat(255),
    '猫'.repeat(255),
    '😀'.repeat(255),
    `${'x'.repeat(254)}😀`,
    `x${' '.repeat(254)}`,
  ])('may be %j', (name) => {
    expect(isName(name)).toBe(true);
  });

  it.each([
    '',
    ' ',
    '\t\n\v\f\r \u00a0\u1680\u2000\u200a\u2028\u2029\u202f\u205f\u3000',
    '\0',
    'Re\0x',
    '\ud800',
    'x\udfff',
    '\udc00\ud800',
    '😀'.slice(0, 1),
    'x'.repeat(256),
    '😀'.repeat(256),
    `${'x'.repeat(255)}😀`,
    ' '.repeat(256),
  ])('may not be %j', (name) => {
    expect(isName(name)).toBe(false);
    const refusal = refusalOf(() => parseNewPet({ name, categoryId: '1' }));
    expect(refusal.code).toBe('invalid_request');
    expect(refusal.message).toMatch(/^name must be 1 to 255 characters, not all white space/);
  });
});

describe('an animal to add', () => {
  const rex: UntrustedNewPet = { name: 'Rex', categoryId: '9007199254740993', status: 'sold' };

  it('is returned unchanged', () => {
    expect(parseNewPet(rex)).toEqual({ name: 'Rex', categoryId: '9007199254740993', status: 'sold' });
  });

  it.each([
    { name: 'Rex', categoryId: '1' },
    { name: 'Rex', categoryId: '1', status: null },
  ])('has no status if none was given: %o', (newPet) => {
    expect(Object.keys(parseNewPet(newPet))).toEqual(['name', 'categoryId']);
  });

  it('is refused for an invalid name or category', () => {
    expect(refusalOf(() => parseNewPet({ ...rex, name: ' ' })).message).toMatch(/^name /);
    expect(refusalOf(() => parseNewPet({ ...rex, categoryId: '07' })).message).toMatch(/^categoryId .*"07"/);
  });
});
