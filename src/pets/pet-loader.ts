import DataLoader from 'dataloader';
import type { Int64 } from './int64.js';
import { notFound, type Pet, type PetQuery } from './pet.js';
import type { Call, PetSource } from './pet-source.js';

/** Combines the reads of one HTTP request: equal reads run once, and all lookups become one call of the source. */
export interface PetLoader {
  /** @throws StoreError `not_found` */
  get(id: Int64): Promise<Pet>;
  list(query: PetQuery): Promise<readonly Pet[]>;
}

/** Creates the loader of one HTTP request. */
export function createPetLoader(source: PetSource, call: Call): PetLoader {
  const lookups = new DataLoader<Int64, Pet>(async (ids) => {
    const pets = await source.findMany(ids, call);
    return ids.map((id, index) => pets[index] ?? notFound(id));
  });
  const lists = new Map<string, Promise<readonly Pet[]>>();
  return {
    get: (id) => lookups.load(id),
    list(query) {
      const key = `${query.limit} ${query.status ?? ''}`;
      const list = lists.get(key) ?? source.list(query, call);
      lists.set(key, list);
      return list;
    },
  };
}
