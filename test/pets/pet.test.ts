import { describe, expect, it } from 'vitest';
import { StoreError } from '../../src/errors.js';
import { parseLimit, parseName, parseNewPet, type UntrustedNewPet } from '../../src/pets/pet.js';

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
    expect(parseLimit(limit)).toBe(limit);
  });

  it.each([0, -1, 101, 1e9, 1.5, 99.999, NaN, Infinity, -Infinity])('may not be %d', (limit) => {
    expect(refusalOf(() => parseLimit(limit))).toMatchObject({
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
    expect(parseName(name)).toBe(name);
  });

  it.each([
    ['', /empty/],
    [' ', /white space/],
    ['\t\n\v\f\r \u00a0\u1680\u2000\u200a\u2028\u2029\u202f\u205f\u3000', /white space/],
    ['\0', /NUL/],
    ['Re\0x', /NUL/],
    ['\ud800', /surrogate/],
    ['x\udfff', /surrogate/],
    ['\udc00\ud800', /surrogate/],
    ['😀'.slice(0, 1), /surrogate/],
    ['x'.repeat(256), /more than 255/],
    ['😀'.repeat(256), /more than 255/],
    [`${'x'.repeat(255)}😀`, /more than 255/],
    [' '.repeat(256), /white space/],
  ])('may not be %j', (name, reason) => {
    const refusal = refusalOf(() => parseName(name));
    expect(refusal.code).toBe('invalid_request');
    expect(refusal.message).toMatch(/^name must be 1 to 255 characters/);
    expect(refusal.message).toMatch(reason);
    expect(refusal.message.length).toBeLessThan(200);
  });

  it('is not read if it is far too long', () => {
    for (const name of [' '.repeat(1_000_000), `${'x'.repeat(1_000_000)}\0`]) {
      expect(refusalOf(() => parseName(name)).message).toMatch(/more than 255/);
    }
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
