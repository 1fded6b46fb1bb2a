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
import type { Failure, FieldPlace, PricedField, Prepared, Price, Priced } from './types.js';

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

const RESPONSE_BYTES = 300;
/** The error of one field, without its places, the response key and what its message quotes. */
const ERROR_BYTES = 600;
const LOCATION_BYTES = 40;
/** In a response: a hundred animals of an unknown status may have it at many places each. */
export const MAX_STATUS_ERRORS = 1_000;
/** One of them, without its place. */
const STATUS_ERROR_BYTES = 400;

/** What names the place of an error takes at most. */
function toPlaceBytes({ responseKey, locations }: FieldPlace): number {
  return responseKey.length + LOCATION_BYTES * locations.length;
}

const NO_FAILURES: readonly Failure[] = [];

/**
 * Prices an operation. A field whose own rules refuse its arguments costs nothing and will be an error, as will an
 * addition with a read-only key.
 * @param limit - of the responses to the operations of an HTTP request together, in bytes
 * @param left - what those before this one leave of it
 * @throws StoreError `operation_too_large` if the response could have more bytes; RequestErrors from introspection
 */
export function price({ compiled, variables }: Prepared, limit: number, left: number, readOnly = false): Priced {
  const fields: PricedField[] = [];
  const keys = new Set<string>();
  /** Of the whole response, and of a dry run's. */
  let maxBytes = RESPONSE_BYTES;
  let dryBytes = RESPONSE_BYTES;
  let isDryRun = false;
  let unkeyed = 0;
  let statusErrors = 0;
  let statusErrorBytes = 0;
  for (const field of compiled.fields) {
    const { responseKey } = field;
    let errorBytes = ERROR_BYTES + toPlaceBytes(field);
    let dataBytes = 0;
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
    try {
      if (readOnly && field.isAddition) throw keyReadOnly();
      const { cost, key, lookup, maxObjects, args, isDryRun: isPricedOnly } = field.price(field.toArguments(variables));
      priced.cost = cost;
      priced.lookup = lookup;
      priced.args = args;
      if (isPricedOnly) isDryRun = true;
      if (key === undefined) unkeyed += cost;
      else keys.add(key);
      dataBytes = maxObjects * (field.maxBytes + 1) + 2;
      statusErrors += maxObjects * field.statuses.length;
      for (const status of field.statuses)
        statusErrorBytes = Math.max(statusErrorBytes, STATUS_ERROR_BYTES + responseKey.length + toPlaceBytes(status));
    } catch (thrown) {
      if (thrown instanceof RequestErrors) throw thrown;
      priced.error = toStoreError(thrown);
      // The message is in the response twice.
      errorBytes += 2 * Buffer.byteLength(JSON.stringify(priced.error.message));
    }
    const fieldBytes = responseKey.length + 4 + Math.max(dataBytes, errorBytes);
    maxBytes += fieldBytes;
    dryBytes += priced.cost > 0 || priced.error ? responseKey.length + 8 : fieldBytes;
    if (dryBytes > left) throw tooLong(limit, left);
  }
  maxBytes += Math.min(statusErrors, MAX_STATUS_ERRORS) * statusErrorBytes;
  if (maxBytes > left && !isDryRun) throw tooLong(limit, left);
  const cost = unkeyed + keys.size;
  return { fields, isDryRun, cost, charge: isDryRun ? 0 : cost, maxBytes: isDryRun ? dryBytes : maxBytes };
}

function tooLong(limit: number, left: number): StoreError {
  const subject = left < limit ? 'The operations of one HTTP request could together return' : 'The response could have';
  const reason = `${subject} more than ${limit} bytes (values selected × animals asked for)`;
  return new StoreError('operation_too_large', `${reason}: ask for fewer fields or animals, or split it.`);
}
