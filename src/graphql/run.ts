import type { GraphQLFormattedError } from 'graphql';
import { StoreError, toStoreError, type ErrorName } from '../errors.js';
import type { Int64 } from '../pets/int64.js';
import type { Pet } from '../pets/pet.js';
import type { FoundPets } from '../pets/pet-source.js';
import { formatStoreError, InvalidArgument, RequestErrors } from './errors.js';
import type {
  Compiled,
  Failure,
  PricedField,
  OperationContext,
  OperationResponse,
  Prepared,
  Priced,
  RootField,
} from './types.js';

const UNAVAILABLE: ReadonlySet<ErrorName> = new Set([
  'unavailable',
  'overloaded',
  'upstream_unavailable',
  'upstream_timeout',
]);
const UPSTREAM_REFUSALS: ReadonlySet<ErrorName> = new Set(['unauthorized', 'rate_limited', 'key_banned']);

/**
 * Runs an admitted operation: fields its resolvers and writes what they return. What a resolver throws is the error of
 * its field. Fields of a mutation run one after the other: https://spec.graphql.org/September2026/#sec-Mutation
 * @throws StoreError if no field got data because an upstream refused the key or its rate
 */
export async function run(
  { operation, compiled }: Prepared,
  { fields, cost }: Priced,
  context: OperationContext,
): Promise<OperationResponse> {
  if (operation.type === 'mutation') {
    // Once the store does not answer, each further field would only wait as long again.
    let failure: StoreError | undefined;
    for (const priced of fields) {
      // A refused addition has a position, too, so that correcting it does not change the keys of the others.
      if (priced.error) context.nextIdempotencyKey();
      if (priced.cost > 0) priced.error ??= failure;
      const settled = runTogether([priced], context);
      if (settled) await settled;
      failure ??= priced.failures.find(({ error }) => UNAVAILABLE.has(error.code))?.error;
    }
  } else {
    const settled = runTogether(fields, context);
    if (settled) await settled;
  }
  const refusal = findUpstreamRefusal(fields, cost);
  if (refusal) throw await context.session.explain(refusal);
  return writeResponse(compiled, fields, context.call.requestId);
}

/** Returns a promise until all fields have settled: lookups together, the others by themselves. It is never rejected. */
function runTogether(fields: readonly PricedField[], context: OperationContext): Promise<unknown> | undefined {
  const waiting: Promise<void>[] = [];
  const start = (some: readonly PricedField[], inContext: OperationContext): void => {
    for (const priced of some) {
      const settled = runField(priced, inContext);
      if (settled) waiting.push(settled);
    }
  };
  const isLookup = ({ lookup }: PricedField): boolean => lookup !== undefined && !context.priced.isDryRun;
  const lookups = fields.filter(isLookup);
  start(lookups.length === 0 ? fields : fields.filter((priced) => !isLookup(priced)), context);
  // The resolver of a lookup finds its animal, and does not wait.
  if (lookups.length > 0) waiting.push(lookUp(lookups, context).then((found) => start(lookups, { ...context, found })));
  return waiting.length > 1 ? Promise.all(waiting) : waiting[0];
}

/** Looks up the animals of fields. If that fails, it is the error of each field. */
async function lookUp(fields: readonly PricedField[], { load }: OperationContext): Promise<FoundPets | undefined> {
  try {
    return await load(fields.map(({ lookup }) => lookup as Int64));
  } catch (thrown) {
    const error = toStoreError(thrown);
    for (const field of fields) field.error = error;
    return undefined;
  }
}

/** Returns a promise if the resolver does. It is never rejected. */
function runField(priced: PricedField, context: OperationContext): Promise<void> | undefined {
  if (context.priced.isDryRun && (priced.cost > 0 || priced.error)) return undefined;
  try {
    if (priced.error) throw priced.error;
    const value = priced.field.resolve(undefined, priced.args, context);
    if (value instanceof Promise)
      return value.then(
        (one) => succeed(priced, one, context),
        (thrown: unknown) => fail(priced, thrown),
      );
    succeed(priced, value, context);
  } catch (thrown) {
    fail(priced, thrown);
  }
  return undefined;
}

function succeed(priced: PricedField, value: unknown, { statusErrors }: OperationContext): void {
  const { field } = priced;
  try {
    priced.json = field.write(value);
    if (field.statuses.length > 0) priced.failures = findStatusErrors(field, value, statusErrors);
  } catch (thrown) {
    fail(priced, thrown);
  }
}

function fail(priced: PricedField, thrown: unknown): void {
  const { locations, responseKey } = priced.field;
  const error = toStoreError(thrown);
  const places = error instanceof InvalidArgument && error.location ? [error.location] : locations;
  priced.failures = [{ error, locations: places, path: [responseKey] }];
}

/** An animal of an upstream may have a status that is not known here. @param budget - of errors, which it reduces */
function findStatusErrors(
  { responseKey, statuses }: RootField,
  value: unknown,
  budget: { left: number },
): readonly Failure[] {
  const failures: Failure[] = [];
  const pets = (Array.isArray(value) ? value : [value]) as readonly (Pet | null)[];
  for (let index = 0; index < pets.length; index += 1) {
    const error = pets[index]?.statusError;
    if (!error) continue;
    const path = pets === value ? [responseKey, index] : [responseKey];
    for (const { responseKey: key, locations } of statuses)
      if (budget.left-- > 0) failures.push({ error, locations, path: [...path, key] });
  }
  return failures;
}

/** Returns why no field got data, if the upstream refused each field that costs something. */
function findUpstreamRefusal(fields: readonly PricedField[], cost: number): StoreError | undefined {
  let refusal: StoreError | undefined;
  for (const { cost: price, json, failures } of fields) {
    if (price === 0) continue;
    const error = failures[0]?.error;
    if (json !== 'null' || (error && !UPSTREAM_REFUSALS.has(error.code))) return undefined;
    refusal ??= error;
  }
  if (refusal?.status !== 429) return refusal;
  return new StoreError(refusal.code, refusal.message, { ...refusal.details, cost });
}

const NO_HEADERS = {};

function writeResponse(compiled: Compiled, fields: readonly PricedField[], requestId: string): OperationResponse {
  let data = '';
  const errors: GraphQLFormattedError[] = [];
  const failures: StoreError[] = [];
  for (const { field, json, failures: failed } of fields) {
    data += `${data === '' ? '' : ','}"${field.responseKey}":${json}`;
    for (const { error, locations, path } of failed) {
      const { message, extensions } = formatStoreError(error);
      failures.push(error);
      errors.push({ message, locations, path, extensions });
    }
  }
  const body = writeBody(errors, requestId, compiled, data);
  return { status: 200, headers: NO_HEADERS, body, hasData: true, failures };
}

/**
 * Writes the response to an operation that was refused.
 * @param compiled - absent if it was refused before
 */
export function writeRefusal(thrown: unknown, requestId: string, compiled?: Compiled): OperationResponse {
  if (thrown instanceof RequestErrors) {
    const { status, errors } = thrown;
    return { status, headers: NO_HEADERS, body: writeBody(errors, requestId, compiled), hasData: false, failures: [] };
  }
  const error = toStoreError(thrown);
  const { status, headers } = error;
  const body = writeBody([formatStoreError(error)], requestId, compiled);
  return { status, headers, body, hasData: false, failures: [error] };
}

/** @param data - its members as JSON; absent if the operation did not run */
function writeBody(
  errors: readonly GraphQLFormattedError[],
  requestId: string,
  compiled?: Compiled,
  data?: string,
): string {
  let body = '';
  if (errors.length > 0) {
    const named = errors.map((error) => ({ ...error, extensions: { ...error.extensions, requestId } }));
    body = `"errors":${JSON.stringify(named)}`;
  }
  if (data !== undefined) body += `${body && ','}"data":{${data}}`;
  const deprecations = compiled?.deprecations ?? [];
  if (deprecations.length > 0) body += `,"extensions":${JSON.stringify({ deprecations })}`;
  return `{${body}}`;
}
