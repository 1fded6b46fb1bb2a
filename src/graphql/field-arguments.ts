import { parseInt64, type Int64 } from '../pets/int64.js';
import { parseLimit, parseNewPet, type NewPet, type PetQuery } from '../pets/pet.js';
import type { MutationAddPetArgs, QueryPetArgs, QueryPetsArgs, RequireFields } from './generated/resolver-types.js';

/** The arguments of `Query.pets`, checked. @throws StoreError `invalid_request` */
export function toPetQuery({ limit, status }: RequireFields<QueryPetsArgs, 'limit'>): PetQuery {
  return { limit: parseLimit(limit), status: status ?? undefined };
}

/** The argument of `Query.pet`, checked. @throws StoreError `invalid_request` */
export function toPetId({ id }: QueryPetArgs): Int64 {
  return parseInt64(id, 'id');
}

/** The argument of `Mutation.addPet`, checked. @throws StoreError `invalid_request` */
export function toNewPet({ input }: MutationAddPetArgs): NewPet {
  return parseNewPet(input);
}
