import type { Pet } from './pet.js';

const WHOLE = Symbol('the list that this one begins');

/** A list that may be the beginning of a longer list, which several readers share. */
interface PetPrefix extends ReadonlyArray<Pet> {
  readonly [WHOLE]?: readonly Pet[];
}

/**
 * Takes the first animals of a list.
 * @returns the list itself if it has at most `count` animals; otherwise a list that refers to the longer one
 */
export function takeFirst(pets: readonly Pet[], count: number): readonly Pet[] {
  if (pets.length <= count) return pets;
  // Not enumerable, so that it compares and copies like any other list.
  return Object.defineProperty(pets.slice(0, count), WHOLE, { value: pets });
}

/** The list that this one is the beginning of: the list itself, unless `takeFirst` made it. */
export function toWhole(pets: readonly Pet[]): readonly Pet[] {
  return (pets as PetPrefix)[WHOLE] ?? pets;
}
