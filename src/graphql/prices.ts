import { StoreError } from '../errors.js';
import { parseInt64 } from '../pets/int64.js';
import { parseNewPet, parsePetQuery } from '../pets/pet.js';
import { FieldError } from './errors.js';
import type {
  Mutation,
  MutationAddPetArgs,
  Query,
  QueryPetArgs,
  QueryPetsArgs,
  RequireFields,
} from './generated/resolver-types.js';
import type { Prepared } from './prepare.js';
import type { Variables } from './variables.js';

/** What a root field asks of the animal store. */
export interface Price {
  /** Requests to the animal store. */
  readonly cost: 0 | 1;
  /** Fields of one operation with the same key are one request; absent: each is a request of its own. */
  readonly key?: string;
  /** The most animals, or other objects, that the field may return. */
  readonly maxObjects: number;
}

/** An operation with the arguments of its fields and what it costs. */
export interface Priced extends Omit<Prepared, 'variables'> {
  /** The arguments of each field, or the error of a field whose arguments are refused. */
  readonly args: readonly (Readonly<Variables> | FieldError)[];
  /** The price of each field. */
  readonly prices: readonly Price[];
  /** Requests to the animal store. */
  readonly cost: number;
}

type RootFieldName = Exclude<keyof Query | keyof Mutation, '__typename'>;

/** The price of what asks the animal store nothing, such as introspection and `__typename`. */
export const FREE: Price = { cost: 0, maxObjects: 1 };

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
    return { cost: 1, maxObjects: 1 };
  },
  rateLimit: () => FREE,
} satisfies Record<RootFieldName, (args: never) => Price>;

/**
 * Prices an operation. A field whose own rules refuse its arguments costs nothing and will be an error.
 * @param maxValues - values that the response may have: values selected of an object × objects
 * @throws StoreError `operation_too_large` when the response may have more
 */
export function price({ operation, fields, variables, source, document }: Prepared, maxValues: number): Priced {
  const args: (Readonly<Variables> | FieldError)[] = [];
  const prices: Price[] = [];
  let values = 0;
  for (const field of fields) {
    try {
      const made = field.toArguments(variables, source);
      const asked = field.toPrice(made);
      args.push(made);
      prices.push(asked);
      values += field.valueCount * asked.maxObjects;
    } catch (error) {
      args.push(FieldError.of(error));
      prices.push(FREE);
    }
  }
  if (values > maxValues) {
    throw new StoreError(
      'operation_too_large',
      `The operation may return more than ${maxValues} values (values selected × animals requested): select fewer ` +
        'fields or animals, or split it.',
    );
  }
  return { operation, fields, source, document, args, prices, cost: countRequests(prices) };
}

/** The requests that an operation costs: what its fields would cost over REST, with equal reads counted once. */
function countRequests(prices: readonly Price[]): number {
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
