import { GraphQLError } from 'graphql';
import { StoreError } from '../errors.js';
import type { Int64 } from '../pets/int64.js';
import type { NewPet, PetQuery } from '../pets/pet.js';
import { toNewPet, toPetId, toPetQuery } from './field-arguments.js';
import type { MutationAddPetArgs, QueryPetArgs, QueryPetsArgs, RequireFields } from './generated/resolver-types.js';

/** What a root field will ask of the store. */
export type Step =
  | { readonly kind: 'free' }
  | { readonly kind: 'pets'; readonly query: PetQuery; readonly key: string }
  | { readonly kind: 'pet'; readonly id: Int64 }
  | { readonly kind: 'addPet'; readonly newPet: NewPet }
  | { readonly kind: 'refused'; readonly error: unknown };

/** Makes and checks the arguments of a root field. What its own rules refuse will be an error of the field. */
export function toStep<Input>(
  kind: Exclude<Step['kind'], 'free' | 'refused'>,
  makeArguments: (input: Input) => unknown,
  input: Input,
): Step {
  try {
    const args = makeArguments(input);
    switch (kind) {
      case 'pets': {
        const query = toPetQuery(args as RequireFields<QueryPetsArgs, 'limit'>);
        return { kind: 'pets', query, key: `${query.limit} ${query.status ?? ''}` };
      }
      case 'pet':
        return { kind: 'pet', id: toPetId(args as QueryPetArgs) };
      case 'addPet':
        return { kind: 'addPet', newPet: toNewPet(args as MutationAddPetArgs) };
    }
  } catch (error) {
    if (error instanceof StoreError || error instanceof GraphQLError) return { kind: 'refused', error };
    throw error;
  }
}

/**
 * The requests that the root fields of an operation would take over REST: equal query fields are one, every addPet is one, and
 * what will be refused is never asked.
 */
export function countRequests(steps: readonly Step[]): number {
  const [only] = steps;
  if (only && steps.length === 1) return only.kind === 'free' || only.kind === 'refused' ? 0 : 1;
  const reads = new Set<string>();
  let adds = 0;
  for (const step of steps) {
    if (step.kind === 'pet') reads.add(step.id);
    else if (step.kind === 'pets') reads.add(step.key);
    else if (step.kind === 'addPet') adds += 1;
  }
  return reads.size + adds;
}
