import type { ListOptions, NewPet, PetClient, PetId } from './client.js';

/**
 * Creates query and mutation options for TanStack Query, of any framework. The client itself repeats what may succeed
 * later, so `retry` is off.
 * @example useQuery(createPetQueries(client).list({ status: 'AVAILABLE' }))
 */
export function createPetQueries(client: PetClient) {
  return {
    list: (options: Omit<ListOptions, 'signal'> = {}) => ({
      // A bigint has no form in JSON.
      queryKey: ['pets', { ...options, after: options.after?.toString() }] as const,
      queryFn: ({ signal }: { readonly signal: AbortSignal }) => client.list({ ...options, signal }),
      retry: false,
    }),
    get: (id: PetId) => ({
      queryKey: ['pet', String(id)] as const,
      queryFn: ({ signal }: { readonly signal: AbortSignal }) => client.get(id, { signal }),
      retry: false,
    }),
    add: () => ({ mutationKey: ['addPet'] as const, mutationFn: (pet: NewPet) => client.add(pet), retry: false }),
  };
}
