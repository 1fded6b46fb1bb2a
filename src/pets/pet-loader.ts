import DataLoader from 'dataloader';
import type { Int64 } from './int64.js';
import type { Pet, PetQuery } from './pet.js';
import type { Call, PetSource } from './pet-source.js';

/** Collects the reads of one HTTP request, so that equal ones are made once and all lookups are one question. */
export interface PetLoader {
  find(id: Int64): Promise<Pet | undefined>;
  /** Looks several up: one slot for each id, in their order. */
  findMany(ids: readonly Int64[]): Promise<readonly (Pet | Error | undefined)[]>;
  list(query: PetQuery): Promise<readonly Pet[]>;
}

export interface PetLoaderOptions {
  readonly source: PetSource;
  readonly call: Call;
  /** True when several operations share the request: they reach their lookups some promise hops apart. */
  readonly batched: boolean;
}

/** Makes the loader of one HTTP request. */
export function createPetLoader({ source, call, batched }: PetLoaderOptions): PetLoader {
  let lookups: DataLoader<Int64, Pet | undefined> | undefined;
  const lists = new Map<string, Promise<readonly Pet[]>>();

  return {
    find: (id) => getLookups().load(id),
    findMany(ids) {
      // What is asked all at once needs no collecting, unless other operations of the request may ask too.
      return batched || (ids.length > 1 && new Set(ids).size < ids.length)
        ? getLookups().loadMany(ids)
        : source.findMany(ids, call);
    },
    list(query) {
      const key = `${query.limit} ${query.status ?? ''}`;
      const known = lists.get(key);
      if (known) return known;
      const asked = source.list(query, call);
      lists.set(key, asked);
      return asked;
    },
  };

  function getLookups(): DataLoader<Int64, Pet | undefined> {
    return (lookups ??= new DataLoader(
      (ids) => source.findMany(ids, call),
      // An immediate runs after every pending promise hop, so the operations of a batch have all asked by then.
      batched ? { batchScheduleFn: (dispatch) => void setImmediate(dispatch) } : {},
    ));
  }
}
