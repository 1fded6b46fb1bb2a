import { describe, expect, it } from 'vitest';
import { StoreError } from '../../src/errors.js';
import { isInt64, parseInt64 } from '../../src/pets/int64.js';

const ACCEPTED = [
  '0',
  '1',
  '-1',
  '10',
  '9007199254740991',
  '9007199254740993',
  '-9007199254740993',
  '999999999999999999',
  '1000000000000000000',
  '9223372036854775806',
  '9223372036854775807',
  '-9223372036854775807',
  '-9223372036854775808',
];

const REFUSED = [
  '',
  ' ',
  '-',
  '+1',
  '-0',
  '00',
  '007',
  '-01',
  '1.0',
  '1.',
  '.5',
  '1e3',
  '1E3',
  '0x5',
  '0b1',
  '0o7',
  '1_000',
  '1,000',
  '1n',
  ' 1',
  '1 ',
  '1\n',
  '\t1',
  '--1',
  '1-',
  '−1',
  '１',
  '٣',
  'NaN',
  'Infinity',
  'null',
  'true',
  '[1]',
  '9223372036854775808',
  '-9223372036854775809',
  '9999999999999999999',
  '10000000000000000000',
  '18446744073709551616',
  '9'.repeat(400),
];

describe('parsing an int64', () => {
  it.each(ACCEPTED)('accepts %s', (text) => {
    expect(isInt64(text)).toBe(true);
    expect(parseInt64(text, 'id')).toBe(text);
  });

  it.each(REFUSED)('refuses %j', (text) => {
    expect(isInt64(text)).toBe(false);
    expect(() => parseInt64(text, 'id')).toThrow(StoreError);
  });

  it('accepts what BigInt writes for any 64 bits, and nothing beyond', () => {
    const values = crypto.getRandomValues(new BigInt64Array(1_000));
    values.forEach((value, i) => {
      expect(isInt64(String(value >> BigInt(i % 64))), String(value)).toBe(true);
      const beyond = value < 0n ? value - 2n ** 63n - 1n : value + 2n ** 63n;
      expect(isInt64(String(beyond)), String(beyond)).toBe(false);
    });
  });

  it('names the field, the expected form and the received value in the error', () => {
    expect(refusalOf('abc').message).toBe(
      'categoryId must be a whole number such as 42 in plain digits, from -9223372036854775808 to 9223372036854775807, got "abc".',
    );
    expect(refusalOf('1e3').code).toBe('invalid_request');
  });

  it('does not repeat all of a long text', () => {
    expect(refusalOf('9'.repeat(100_000)).message.length).toBeLessThan(250);
  });
});

function refusalOf(text: string): StoreError {
  try {
    parseInt64(text, 'categoryId');
  } catch (error) {
    if (error instanceof StoreError) return error;
  }
  throw new Error(`${text} was not refused`);
}
