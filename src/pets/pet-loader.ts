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

/** The loader of one HTTP request. */
export class RequestPetLoader implements PetLoader {
  #lookups: DataLoader<Int64, Pet | undefined> | undefined;
  #lists: Map<string, Promise<readonly Pet[]>> | undefined;

  constructor(private readonly options: PetLoaderOptions) {}

  find(id: Int64): Promise<Pet | undefined> {
    return this.#getLookups().load(id);
  }

  findMany(ids: readonly Int64[]): Promise<readonly (Pet | Error | undefined)[]> {
    const { source, call, batched } = this.options;
    // What is asked all at once needs no collecting, unless other operations of the request may ask too.
    return batched || (ids.length > 1 && new Set(ids).size < ids.length)
      ? this.#getLookups().loadMany(ids)
      : source.findMany(ids, call);
  }

  list(query: PetQuery): Promise<readonly Pet[]> {
    const key = `${query.limit} ${query.status ?? ''}`;
    const known = this.#lists?.get(key);
    if (known) return known;
    const asked = this.options.source.list(query, this.options.call);
    (this.#lists ??= new Map()).set(key, asked);
    return asked;
  }

  #getLookups(): DataLoader<Int64, Pet | undefined> {
    const { source, call, batched } = this.options;
    return (this.#lookups ??= new DataLoader(
      (ids) => source.findMany(ids, call),
      // An immediate runs after every pending promise hop, so the operations of a batch have all asked by then.
      batched ? { batchScheduleFn: (dispatch) => void setImmediate(dispatch) } : {},
    ));
  }
}
