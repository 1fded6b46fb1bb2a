import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { memoize } from '../../src/bounded-cache.js';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

function counting() {
  const asked: string[] = [];
  const read = memoize((text) => {
    asked.push(text);
    return text.toUpperCase();
  });
  return { asked, read };
}

describe('memoize', () => {
  it('computes each text once and forgets the result after five seconds', () => {
    const { asked, read } = counting();
    for (let i = 0; i < 10; i++) expect(read('abc')).toBe('ABC');
    expect(read('def')).toBe('DEF');
    expect(asked).toEqual(['abc', 'def']);
    vi.advanceTimersByTime(5_000);
    expect(read('abc')).toBe('ABC');
    expect(asked).toEqual(['abc', 'def', 'abc']);
  });

  it('does not cache long texts, and bounds the number of entries', () => {
    const { asked, read } = counting();
    const long = 'x'.repeat(257);
    read(long);
    read(long);
    expect(asked).toHaveLength(2);
    for (let i = 0; i < 10_000; i++) read(`key ${i}`);
    read('key 0');
    expect(asked).toHaveLength(10_003);
  });
});
