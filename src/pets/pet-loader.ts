import DataLoader from 'dataloader';
import type { Int64 } from './int64.js';
import { notFound, type Pet, type PetQuery } from './pet.js';
import type { Call, PetSource } from './pet-source.js';

/** Equal lists have the same key. With its spaces, it never equals the id of a lookup. */
export const keyOf = ({ limit, status, after }: PetQuery): string => `${limit} ${status ?? ''} ${after ?? ''}`;

export type PetLoader = ReturnType<typeof createPetLoader>;

/** Creates the loader of one HTTP request: equal reads run once, and all lookups become one call of the source. */
export function createPetLoader(source: PetSource, call: Call) {
  let lookups: DataLoader<Int64, Pet> | undefined;
  const lists = new Map<string, Promise<readonly Pet[]>>();
  return {
    /** @throws StoreError `not_found` */
    get: (id: Int64): Promise<Pet> => (lookups ??= new DataLoader(findMany)).load(id),
    list(query: PetQuery): Promise<readonly Pet[]> {
      const key = keyOf(query);
      const list = lists.get(key) ?? source.list(query, call);
      lists.set(key, list);
      return list;
    },
  };
  async function findMany(ids: readonly Int64[]): Promise<(Pet | Error)[]> {
    const pets = await source.findMany(ids, call);
    return ids.map((id, index) => pets[index] ?? notFound(id));
  }
}
