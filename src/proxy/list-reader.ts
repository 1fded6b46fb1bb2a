import { createBoundedCache } from '../bounded-cache.js';
import { compareInt64 } from '../pets/int64.js';
import type { Pet } from '../pets/pet.js';
import { parsePets } from './wire.js';

/** There are 400 paths that list animals: a hundred limits, with one of three statuses or none. */
const MAX_LISTS = 400;
/** The longest list that is cached, in characters. A hundred animals take about seven thousand. */
const MAX_LENGTH = 20_000;

interface ReadList {
  readonly body: string;
  readonly pets: readonly Pet[];
}

/**
 * Creates a reader for the upstream's lists. Most lists are identical to the previous response for the same path. The
 * reader compares them with that response instead of parsing, checking and sorting them again.
 * @returns a function from path and body to the animals, lowest id first, or to undefined if the interface does not
 * allow the body
 */
export function createListReader(): (path: string, body: string) => readonly Pet[] | undefined {
  const lists = createBoundedCache<ReadList>(MAX_LISTS);
  return (path, body) => {
    const last = lists.get(path);
    if (last?.body === body) return last.pets;
    const parsed = parsePets(body);
    const pets = parsed && sortById(parsed);
    if (pets && body.length <= MAX_LENGTH) lists.set(path, { body, pets });
    return pets;
  };
}

/** Sorts the animals, because the interface does not define their order. */
function sortById(pets: readonly Pet[]): readonly Pet[] {
  const isSorted = pets.every(({ id }, index) => index === 0 || compareInt64((pets[index - 1] as Pet).id, id) < 0);
  return isSorted ? pets : [...pets].sort((a, b) => compareInt64(a.id, b.id));
}
