import DataLoader from 'dataloader';
import type { Int64 } from './int64.js';
import type { Call, FoundPets, PetSource } from './pet-source.js';

/** Looks up the animals of one operation. */
export type PetLoader = (ids: readonly Int64[]) => Promise<FoundPets>;

/** Creates the loader of one HTTP request: the lookups of all its operations become one call of the source. */
export function createPetLoader(source: PetSource, call: Call): PetLoader {
  let loader: DataLoader<readonly Int64[], FoundPets> | undefined;
  return (ids) => (loader ??= new DataLoader(findMany, { cache: false })).load(ids);

  async function findMany(lists: readonly (readonly Int64[])[]): Promise<FoundPets[]> {
    const found = await source.findMany(lists.flat(), call);
    return lists.map(() => found);
  }
}
