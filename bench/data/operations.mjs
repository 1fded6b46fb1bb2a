import { ANIMAL_COUNT } from './animals.mjs';

/**
 * What is asked, before any server's way of asking it:
 * `{ kind: 'list', limit, status? }`, `{ kind: 'lookup', ids }` or `{ kind: 'add', name, categoryId, status }`.
 * `literal` asks with the limit in the document instead of a variable.
 */
const STATUSES = [undefined, 'available', 'pending', 'sold'];

/** Numbers that look random and are the same in every run and for every server. */
export function createRandom(seed) {
  let state = seed >>> 0;
  // https://en.wikipedia.org/wiki/Linear_congruential_generator, the constants of Numerical Recipes
  return (below) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

/** Every legal limit with every status: 400 lists. */
const variedLists = Array.from({ length: 400 }, (_, index) => ({
  kind: 'list',
  limit: 1 + (index >> 2),
  status: STATUSES[index & 3],
}));

function lookups(count, idsOfEach, seed) {
  const random = createRandom(seed);
  return Array.from({ length: count }, () => {
    const ids = new Set();
    while (ids.size < idsOfEach) ids.add(String(1 + random(ANIMAL_COUNT)));
    return { kind: 'lookup', ids: [...ids] };
  });
}

const adds = Array.from({ length: 64 }, (_, index) => ({
  kind: 'add',
  name: `Newcomer ${index}`,
  categoryId: String(1 + (index % 25)),
  status: STATUSES[1 + (index % 3)],
}));

/** Kinds of request and how often each comes, in parts of a hundred. */
const mix = [
  { share: 70, operations: variedLists },
  { share: 15, operations: lookups(1_000, 1, 11) },
  { share: 10, operations: lookups(1_000, 5, 12) },
  { share: 5, operations: adds },
];

export const WORKS = {
  W1: {
    title: 'list of 20',
    keys: 1,
    parts: [{ share: 100, operations: [{ kind: 'list', limit: 20, literal: true }] }],
  },
  W1v: { title: 'lists, limit and status varied', keys: 1, parts: [{ share: 100, operations: variedLists }] },
  W2: {
    title: 'list of 100',
    keys: 1,
    parts: [{ share: 100, operations: [{ kind: 'list', limit: 100, literal: true }] }],
  },
  W3: {
    title: '50 aliased lookups, ids varied',
    keys: 1,
    parts: [{ share: 100, operations: lookups(1_000, 50, 13) }],
  },
  W4: { title: 'addPet', keys: 1, parts: [{ share: 100, operations: adds }] },
  W5: { title: 'mix: 70 % varied lists, 25 % lookups, 5 % adds', keys: 1, parts: mix },
  W6: { title: 'the mix, over a hundred keys', keys: 100, parts: mix },
};

/** Picks the index of the next operation of a work, counted over all of its parts. */
export function createPicker({ parts }, seed) {
  const random = createRandom(seed);
  const ends = [];
  let share = 0;
  let first = 0;
  for (const part of parts) {
    share += part.share;
    ends.push({ share, first, count: part.operations.length });
    first += part.operations.length;
  }
  if (ends.length === 1) return () => random(first);
  return () => {
    const point = random(100);
    const part = ends.find((end) => point < end.share);
    return part.first + random(part.count);
  };
}

/** All operations of a work, in the order that `createPicker` counts them. */
export function operationsOf({ parts }) {
  return parts.flatMap((part) => part.operations);
}
