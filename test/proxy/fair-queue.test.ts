import { expect, it } from 'vitest';
import { FairQueue } from '../../src/proxy/fair-queue.js';

const anyKey = (): boolean => true;

function drain(queue: FairQueue<string>): string[] {
  const items: string[] = [];
  for (let next = queue.shift(anyKey); next; next = queue.shift(anyKey)) items.push(next[1]);
  return items;
}

it('keeps the order of one key', () => {
  const queue = new FairQueue<string>();
  for (const item of ['a1', 'a2', 'a3']) queue.push('a', item);
  expect(drain(queue)).toEqual(['a1', 'a2', 'a3']);
  expect(drain(queue)).toEqual([]);
});

it('serves keys in turn, however many items each has', () => {
  const queue = new FairQueue<string>();
  for (const item of ['a1', 'a2', 'a3', 'a4']) queue.push('a', item);
  queue.push('b', 'b1');
  expect(queue.shift(anyKey)).toEqual(['a', 'a1']);
  queue.push('c', 'c1');
  queue.push('c', 'c2');
  expect(drain(queue)).toEqual(['b1', 'a2', 'c1', 'a3', 'c2', 'a4']);
});

it('forgets deleted items', () => {
  const queue = new FairQueue<string>();
  for (const item of ['a1', 'a2']) queue.push('a', item);
  queue.push('b', 'b1');
  queue.delete('a', 'a1');
  queue.delete('b', 'b1');
  expect([queue.size, queue.has('a'), queue.has('b')]).toEqual([1, true, false]);
  expect(drain(queue)).toEqual(['a2']);
});
