import { MAX_WINDOWS } from '../access/ledger.js';
import { keyReadOnly } from '../access/refusals.js';
import { StoreError, toStoreError } from '../errors.js';
import { parseInt64 } from '../pets/int64.js';
import { keyOf, parseNewPet, parsePetQuery, type UntrustedNewPet, type UntrustedPetQuery } from '../pets/pet.js';
import { RequestErrors } from './errors.js';
import type {
  Mutation,
  MutationAddPetArgs,
  Query,
  QueryPetArgs,
  QueryPetsArgs,
  QueryRateLimitArgs,
} from './generated/resolver-types.js';
import type { Failure, PricedField, Prepared, Price, Priced } from './types.js';

type RootFieldName = Exclude<keyof Query | keyof Mutation, '__typename'>;

/**
 * The price of every root field. A field that is missing here does not compile. Each function throws a StoreError
 * `invalid_request` if the field's own rules refuse its arguments.
 */
export const PRICES = {
  pets: (args: UntrustedPetQuery): Price<QueryPetsArgs> => {
    const query = parsePetQuery(args);
    return { cost: 1, key: keyOf(query), maxObjects: query.limit, args: query };
  },
  pet: (args: { readonly id: string }): Price<QueryPetArgs> => {
    const id = parseInt64(args.id, 'id');
    return { cost: 1, key: id, lookup: id, maxObjects: 1, args: { id } };
  },
  addPet: ({ input }: { readonly input: UntrustedNewPet }): Price<MutationAddPetArgs> => {
    return { cost: 1, maxObjects: 1, args: { input: parseNewPet(input) } };
  },
  rateLimit: (args: QueryRateLimitArgs): Price<QueryRateLimitArgs> => {
    return { cost: 0, maxObjects: MAX_WINDOWS, args, isDryRun: args.dryRun };
  },
} satisfies Record<RootFieldName, (args: never) => Price>;

/** What a response has besides its fields. */
const RESPONSE_BYTES = 300;

const NO_FAILURES: readonly Failure[] = [];

/**
 * Prices an operation. A field whose own rules refuse its arguments costs nothing and will be an error, as will an
 * addition with a read-only key.
 * @param limit - of the responses to the operations of an HTTP request together, in bytes
 * @param left - what those before this one leave of it
 * @throws StoreError `operation_too_large` if the data could have more bytes; RequestErrors from introspection
 */
export function price({ compiled, variables }: Prepared, limit: number, left: number, readOnly = false): Priced {
  const fields: PricedField[] = [];
  const keys = new Set<string>();
  let isDryRun = false;
  let unkeyed = 0;
  let freeBytes = RESPONSE_BYTES;
  let paidBytes = 0;
  for (const field of compiled.fields) {
    const priced: PricedField = {
      field,
      cost: 0,
      lookup: undefined,
      args: undefined,
      error: undefined,
      json: 'null',
      failures: NO_FAILURES,
    };
    fields.push(priced);
    freeBytes += field.responseKey.length + 4;
    try {
      if (readOnly && field.isAddition) throw keyReadOnly();
      const { cost, key, lookup, maxObjects, args, isDryRun: isPricedOnly } = field.price(field.toArguments(variables));
      priced.cost = cost;
      priced.lookup = lookup;
      priced.args = args;
      if (isPricedOnly) isDryRun = true;
      if (key === undefined) unkeyed += cost;
      else keys.add(key);
      const bytes = maxObjects * (field.maxBytes + 1) + 2;
      if (cost > 0) paidBytes += bytes;
      else freeBytes += bytes;
    } catch (thrown) {
      if (thrown instanceof RequestErrors) throw thrown;
      priced.error = toStoreError(thrown);
    }
  }
  const maxBytes = isDryRun ? freeBytes : freeBytes + paidBytes;
  if (maxBytes > left) throw tooLong(limit, left);
  const cost = unkeyed + keys.size;
  return { fields, isDryRun, cost, charge: isDryRun ? 0 : cost, maxBytes };
}

function tooLong(limit: number, left: number): StoreError {
  const subject = left < limit ? 'The operations of one HTTP request could together return' : 'The response could have';
  const reason = `${subject} more than ${limit} bytes (values selected × animals asked for)`;
  return new StoreError('operation_too_large', `${reason}: ask for fewer fields or animals, or split it.`);
}
