import { parseInt64 } from '../pets/int64.js';
import { parseNewPet, parsePetQuery } from '../pets/pet.js';
import type {
  Mutation,
  MutationAddPetArgs,
  Query,
  QueryPetArgs,
  QueryPetsArgs,
  RequireFields,
} from './generated/resolver-types.js';

/** What a root field asks of the animal store. */
export interface Price {
  /** Requests to the animal store. */
  readonly cost: 0 | 1;
  /** Fields of one operation with the same key are one request; absent: each is a request of its own. */
  readonly key?: string;
  /** The most animals, or other objects, that the field may return. */
  readonly maxObjects: number;
}

type RootFieldName = Exclude<keyof Query | keyof Mutation, '__typename'>;

/** The price of what asks the animal store nothing, such as introspection and `__typename`. */
export const FREE: Price = { cost: 0, maxObjects: 1 };
const ONE_REQUEST: Price = { cost: 1, maxObjects: 1 };

/**
 * The price of every root field. A field that is missing here does not compile.
 * Each function throws a StoreError `invalid_request` when the field's own rules refuse its arguments: such a field
 * asks the store nothing and costs nothing.
 */
export const PRICES = {
  pets: (args: RequireFields<QueryPetsArgs, 'limit'>): Price => {
    const { limit, status = '' } = parsePetQuery(args);
    return { cost: 1, key: `pets ${limit} ${status}`, maxObjects: limit };
  },
  pet: ({ id }: QueryPetArgs): Price => ({ cost: 1, key: parseInt64(id, 'id'), maxObjects: 1 }),
  addPet: ({ input }: MutationAddPetArgs): Price => {
    parseNewPet(input);
    return ONE_REQUEST;
  },
  rateLimit: () => FREE,
} satisfies Record<RootFieldName, (args: never) => Price>;

/**
 * The requests that an operation costs: what its fields would cost over REST, with equal reads counted once.
 */
export function countRequests(prices: readonly Price[]): number {
  const [only] = prices;
  if (only && prices.length === 1) return only.cost;
  const keys = new Set<string>();
  let cost = 0;
  for (const price of prices) {
    if (price.key === undefined) cost += price.cost;
    else keys.add(price.key);
  }
  return cost + keys.size;
}
