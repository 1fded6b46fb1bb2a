import DataLoader from 'dataloader';
import type { Int64 } from './int64.js';
import { notFound, type Pet } from './pet.js';
import type { Call, PetSource } from './pet-source.js';

/** The lookups of one HTTP request. */
export interface PetLoader {
  /** Looks animals up. All calls of one turn become one call of the source. The promise is never rejected. */
  load(ids: readonly Int64[]): Promise<void>;
  /** Returns an animal that has been looked up. @throws StoreError `not_found`, or that of the source */
  get(id: Int64): Pet;
}

export function createPetLoader(source: PetSource, call: Call): PetLoader {
  const found = new Map<Int64, Pet | Error>();
  let lookups: DataLoader<readonly Int64[], void> | undefined;
  return {
    load: (ids) => (lookups ??= new DataLoader(findMany, { cache: false })).load(ids),
    get(id) {
      const pet = found.get(id) ?? notFound(id);
      if (pet instanceof Error) throw pet;
      return pet;
    },
  };

  async function findMany(lists: readonly (readonly Int64[])[]): Promise<void[]> {
    const ids = [...new Set(lists.flat())];
    const pets = await source.findMany(ids, call).catch((error: unknown) => ids.map(() => error as Error));
    for (let index = 0; index < ids.length; index += 1) {
      const pet = pets[index];
      if (pet) found.set(ids[index] as Int64, pet);
    }
    return lists.map(() => undefined);
  }
}
