import { expect, it } from 'vitest';
import { createMergedLookups } from '../../src/access/merged-lookups.js';

/** Statements that are answered when they are told to: each with its keys in upper case. */
function createStatements() {
  const asked: (readonly string[])[] = [];
  const ends: (() => void)[] = [];
  const find = createMergedLookups(async (keys: readonly string[]) => {
    asked.push(keys);
    await new Promise<void>((end) => ends.push(end));
    if (keys.includes('broken')) throw new Error('away');
    return keys.map((key) => (key === 'absent' ? undefined : key.toUpperCase()));
  });
  const start = async (count: number): Promise<void> => {
    while (asked.length < count) await new Promise((resolve) => setImmediate(resolve));
  };
  return { asked, find, start, end: (index: number) => ends[index]?.() };
}

it('asks once for what is looked up in the same turn, and gives each its own', async () => {
  const { asked, find, start, end } = createStatements();
  const found = Promise.all(['a', 'absent', 'b', 'a'].map(find));
  await start(1);
  end(0);
  expect(await found).toEqual(['A', undefined, 'B', 'A']);
  expect(asked).toEqual([['a', 'absent', 'b', 'a']]);
});

it('gathers what comes while a statement is under way, until it ends', async () => {
  const { asked, find, start, end } = createStatements();
  const first = find('a');
  await start(1);
  const second = find('b');
  await Promise.resolve();
  const third = find('c');
  end(0);
  await first;
  await start(2);
  end(1);
  expect(await Promise.all([second, third])).toEqual(['B', 'C']);
  expect(asked).toEqual([['a'], ['b', 'c']]);
});

it('does not wait for a statement that takes long', async () => {
  const { find, start, end } = createStatements();
  const slow = find('a');
  await start(1);
  const next = find('b');
  await start(2);
  end(1);
  expect(await next).toBe('B');
  end(0);
  expect(await slow).toBe('A');
});

it('fails those of a failed statement alone', async () => {
  const { find, start, end } = createStatements();
  const failed = Promise.allSettled([find('a'), find('broken')]);
  await start(1);
  const next = find('b');
  end(0);
  expect((await failed).map(({ status }) => status)).toEqual(['rejected', 'rejected']);
  await start(2);
  end(1);
  expect(await next).toBe('B');
});

it('remembers nothing', async () => {
  const { asked, find, start, end } = createStatements();
  for (const index of [0, 1]) {
    const found = find('a');
    await start(index + 1);
    end(index);
    await found;
  }
  expect(asked).toEqual([['a'], ['a']]);
});
