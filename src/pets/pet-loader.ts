import DataLoader from 'dataloader';
import type { Int64 } from './int64.js';
import { notFound, type Pet } from './pet.js';
import type { Call, PetSource } from './pet-source.js';

/** @throws StoreError `not_found` */
export type PetLoader = (id: Int64) => Promise<Pet>;

/** Creates the loader of one HTTP request: all its lookups become one call of the source. */
export function createPetLoader(source: PetSource, call: Call): PetLoader {
  let lookups: DataLoader<Int64, Pet> | undefined;
  return (id) => (lookups ??= new DataLoader(findMany)).load(id);

  async function findMany(ids: readonly Int64[]): Promise<(Pet | Error)[]> {
    const pets = await source.findMany(ids, call);
    return ids.map((id, index) => pets[index] ?? notFound(id));
  }
}
