import { describe, expect, it } from 'vitest';
import { parseBearer } from '../../src/access/api-key.js';

describe('parseBearer', () => {
  it.each(['Bearer abc', 'bearer abc', 'BEARER abc', 'bEaReR abc', 'Bearer    abc', 'Bearer abc  '])(
    'reads the key from %j, with the scheme in any case',
    (header) => {
      expect(parseBearer(header)).toBe('abc');
    },
  );

  it.each([
    undefined,
    '',
    ' ',
    'Bearer',
    'Bearer ',
    'Bearer    ',
    'abc',
    'Bearerabc',
    'Basic YTpi',
    'Digest a="Bearer b"',
  ])('finds no key in %j', (header) => {
    expect(parseBearer(header)).toBeUndefined();
  });

  it('takes everything after the scheme as one key and keeps its case', () => {
    expect(parseBearer('Bearer Abc dEf')).toBe('Abc dEf');
    expect(parseBearer('Bearer Bearer abc')).toBe('Bearer abc');
  });
});
