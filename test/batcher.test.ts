import { expect, it } from 'vitest';
import { createBatcher } from '../src/batcher.js';

/** A batch function whose batches end when the test ends them. The result for a key is the key in upper case. */
function createBatches() {
  const cancelled = new Set<string>();
  const asked: (readonly string[])[] = [];
  const ends: (() => void)[] = [];
  const find = createBatcher({
    async run(keys: readonly string[]) {
      asked.push(keys);
      await new Promise<void>((end) => ends.push(end));
      if (keys.includes('broken')) throw new Error('away');
      return keys.map((key) => {
        if (key === 'refused') return new Error('refused');
        return key === 'absent' ? undefined : key.toUpperCase();
      });
    },
    sizeOf: (key) => (key === 'large' ? 999 : 1),
    findCancellation: (key) => (cancelled.has(key) ? new Error('cancelled') : undefined),
  });
  const start = async (count: number): Promise<void> => {
    while (asked.length < count) await new Promise((resolve) => setImmediate(resolve));
  };
  return { asked, cancelled, find, start, end: (index: number) => ends[index]?.() };
}

it('batches the keys of one turn, and returns to each its own result', async () => {
  const { asked, find, start, end } = createBatches();
  const found = Promise.all(['a', 'absent', 'b', 'a'].map(find));
  await start(1);
  end(0);
  expect(await found).toEqual(['A', undefined, 'B', 'A']);
  expect(asked).toEqual([['a', 'absent', 'b', 'a']]);
});

it('holds keys back while a batch is running', async () => {
  const { asked, find, start, end } = createBatches();
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

it('does not wait long for a slow batch', async () => {
  const { find, start, end } = createBatches();
  const slow = find('a');
  await start(1);
  const next = find('b');
  await start(2);
  end(1);
  expect(await next).toBe('B');
  end(0);
  expect(await slow).toBe('A');
});

it('rejects only the keys of a failed batch', async () => {
  const { find, start, end } = createBatches();
  const failed = Promise.allSettled([find('a'), find('broken')]);
  await start(1);
  const next = find('b');
  end(0);
  expect((await failed).map(({ status }) => status)).toEqual(['rejected', 'rejected']);
  await start(2);
  end(1);
  expect(await next).toBe('B');
});

it('caches nothing', async () => {
  const { asked, find, start, end } = createBatches();
  for (const index of [0, 1]) {
    const found = find('a');
    await start(index + 1);
    end(index);
    await found;
  }
  expect(asked).toEqual([['a'], ['a']]);
});

it('rejects only the key whose slot holds an error', async () => {
  const { find, start, end } = createBatches();
  const found = Promise.allSettled([find('a'), find('refused')]);
  await start(1);
  end(0);
  expect((await found).map(({ status }) => status)).toEqual(['fulfilled', 'rejected']);
});

it('leaves out keys that were cancelled before dispatch', async () => {
  const { asked, cancelled, find, start, end } = createBatches();
  const found = Promise.allSettled([find('a'), find('b')]);
  cancelled.add('a');
  await start(1);
  end(0);
  expect((await found).map(({ status }) => status)).toEqual(['rejected', 'fulfilled']);
  expect(asked).toEqual([['b']]);
});

it('starts another batch if one is full', async () => {
  const { asked, find, start, end } = createBatches();
  const found = Promise.all(['a', 'large', 'b', 'c'].map(find));
  await start(2);
  end(0);
  end(1);
  expect(await found).toEqual(['A', 'LARGE', 'B', 'C']);
  expect(asked).toEqual([
    ['a', 'large'],
    ['b', 'c'],
  ]);
});

it('waits for the requests that have arrived if running a batch blocks the event loop', async () => {
  const sizes: number[] = [];
  const find = createBatcher({
    isBlocking: true,
    run: (keys: readonly string[]) => {
      sizes.push(keys.length);
      return Promise.resolve(keys);
    },
  });
  // Each arrives in a callback of its own, as from a socket.
  const arrive = (key: string) => new Promise((resolve) => setImmediate(() => resolve(find(key))));
  await find('alone');
  await Promise.all(['a', 'b', 'c'].map(arrive));
  expect(sizes).toEqual([1, 3]);
});
