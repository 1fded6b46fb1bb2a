import { createBoundedCache } from '../../bounded-cache.js';
import { compareInt64 } from '../int64.js';
import type { Pet } from '../pet.js';
import { parsePets } from './wire.js';

/** There are 400 paths that list animals: a hundred limits, with three statuses and none. */
const MAX_LISTS = 400;
/** Characters of a list that is kept; a hundred animals take some seven thousand. */
const MAX_LENGTH = 20_000;

interface ReadList {
  readonly body: string;
  readonly pets: readonly Pet[];
}

/**
 * Makes what reads the lists of another store. Most are letter for letter what the last answer to the same question was:
 * those are compared with it instead of being parsed, checked and put in order again, which is the dearest part of a list.
 * @returns reads the body that a path was answered with: the animals, the lowest id first, or undefined for what the
 * interface does not allow
 */
export function createListReader(): (path: string, body: string) => readonly Pet[] | undefined {
  const lists = createBoundedCache<ReadList>(MAX_LISTS);
  return (path, body) => {
    const last = lists.get(path);
    if (last?.body === body) return last.pets;
    const parsed = parsePets(body);
    const pets = parsed && inOrder(parsed);
    if (pets && body.length <= MAX_LENGTH) lists.set(path, { body, pets });
    return pets;
  };
}

/** The interface does not say in which order a store lists; this program does. */
function inOrder(pets: readonly Pet[]): readonly Pet[] {
  const isOrdered = pets.every(({ id }, index) => index === 0 || compareInt64((pets[index - 1] as Pet).id, id) < 0);
  return isOrdered ? pets : [...pets].sort((a, b) => compareInt64(a.id, b.id));
}
