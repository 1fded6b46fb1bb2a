import type { ListOptions, Pet } from './client.js';
import { createPetError, isPetError, type PetError } from './pet-error.js';

const LIMIT = 100;
const STATUSES = ['AVAILABLE', 'PENDING', 'SOLD'] as const;

/**
 * Creates a search that replaces `pet(id)`. It asks for the list of all animals, and only if that does not reach an id,
 * for the list of each status: at most four requests of the key's plan, whatever the number of ids.
 */
export function createListSearch(list: (options: ListOptions) => Promise<readonly Pet[]>) {
  return async (ids: readonly string[], signal: AbortSignal | undefined): Promise<(Pet | PetError)[]> => {
    try {
      const all = ids.length > 0 ? await list({ limit: LIMIT, signal }) : [];
      const pets = new Map(all.map((pet) => [pet.id, pet]));
      const last = all[LIMIT - 1];
      const isReached = (id: string): boolean => !last || BigInt(id) <= BigInt(last.id);
      if (!ids.every(isReached)) {
        const lists = await Promise.all(STATUSES.map((status) => list({ limit: LIMIT, status, signal })));
        for (const pet of lists.flat()) pets.set(pet.id, pet);
      }
      return ids.map((id) => {
        const failure = isReached(id)
          ? ({ code: 'NOT_FOUND', message: `There is no animal with id ${id}.`, requestId: '' } as const)
          : ({ code: 'BEYOND_LISTS', message: `The lists do not reach the animal ${id}.` } as const);
        return pets.get(id) ?? createPetError(failure);
      });
    } catch (error) {
      if (isPetError(error)) return ids.map(() => error);
      throw error;
    }
  };
}
