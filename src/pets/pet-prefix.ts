import type { Pet } from './pet.js';

const WHOLE = Symbol('the list that this one is cut from');

/** A list that may be the beginning of a longer one, which several readers share. */
interface PetPrefix extends ReadonlyArray<Pet> {
  readonly [WHOLE]?: readonly Pet[];
}

/**
 * The first animals of a list.
 * @returns the list itself when it has no more than `count`; else a list that remembers what it was cut from
 */
export function takeFirst(pets: readonly Pet[], count: number): readonly Pet[] {
  if (pets.length <= count) return pets;
  // Not enumerable: to whoever compares or copies it, it is a list like any other.
  return Object.defineProperty(pets.slice(0, count), WHOLE, { value: pets });
}

/** The list that this one is the beginning of: itself, unless it was cut by `takeFirst`. */
export function toWhole(pets: readonly Pet[]): readonly Pet[] {
  return (pets as PetPrefix)[WHOLE] ?? pets;
}
