import type { MaybePromise } from '../access/maybe-promise.js';
import type { Session } from '../access/session.js';
import { StoreError, toStoreError, withCost, type ErrorName } from '../errors.js';
import type { Pet } from '../pets/pet.js';
import { InvalidArgument } from './errors.js';
import type { RootField, FieldCall, Priced, OperationContext, Failure, Outcome } from './types.js';

const UNAVAILABLE: ReadonlySet<ErrorName> = new Set(['unavailable', 'overloaded']);

/**
 * Runs an admitted operation: calls its resolvers and writes what they return. What a resolver throws is the error of
 * its field. Fields of a mutation run one after the other: https://spec.graphql.org/September2026/#sec-Mutation
 * @throws StoreError if no field got data because an upstream refused the key or its rate
 */
export async function run({ isMutation, calls, cost }: Priced, context: OperationContext): Promise<readonly Outcome[]> {
  const outcomes: Outcome[] = [];
  if (isMutation) {
    // Once the store does not answer, each further field would only wait as long again.
    let failure: StoreError | undefined;
    for (const call of calls) {
      const outcome = await start(failure && call.cost > 0 ? { ...call, error: failure } : call, context);
      failure ??= outcome.failures.find(({ error }) => UNAVAILABLE.has(error.code))?.error;
      outcomes.push(outcome);
    }
  } else {
    const started = calls.map((call) => start(call, context));
    for (const outcome of started) outcomes.push(outcome instanceof Promise ? await outcome : outcome);
  }
  const refusal = findUpstreamRefusal(calls, outcomes);
  if (refusal) await refuse(refusal, cost, context.session);
  return outcomes;
}

/** Calls a resolver. The promise is never rejected. */
function start({ field, args, error }: FieldCall, context: OperationContext): MaybePromise<Outcome> {
  if (error) return toFailure(field, error);
  try {
    const value = field.resolve(args, context);
    if (!(value instanceof Promise)) return toOutcome(field, value);
    return value.then(
      (resolved) => toOutcome(field, resolved),
      (thrown: unknown) => toFailure(field, thrown),
    );
  } catch (thrown) {
    return toFailure(field, thrown);
  }
}

const NO_FAILURES: readonly Failure[] = [];

function toOutcome(field: RootField, value: unknown): Outcome {
  try {
    const json = field.write(value);
    const failures = field.statuses.length === 0 ? NO_FAILURES : findStatusErrors(field, value);
    return { responseKey: field.responseKey, json, failures };
  } catch (error) {
    return toFailure(field, error);
  }
}

function toFailure({ responseKey, locations }: RootField, thrown: unknown): Outcome {
  const error = toStoreError(thrown);
  const own = error instanceof InvalidArgument && error.location ? [error.location] : locations;
  return { responseKey, json: 'null', failures: [{ error, locations: own, path: [responseKey] }] };
}

/** An animal of an upstream may have a status that is not known here. */
function findStatusErrors({ responseKey, statuses }: RootField, value: unknown): readonly Failure[] {
  const failures: Failure[] = [];
  const pets = (Array.isArray(value) ? value : [value]) as readonly (Pet | null)[];
  pets.forEach((pet, index) => {
    const error = pet?.statusError;
    if (!error) return;
    const path = pets === value ? [responseKey, index] : [responseKey];
    for (const { responseKey: key, locations } of statuses) failures.push({ error, locations, path: [...path, key] });
  });
  return failures;
}

const UPSTREAM_REFUSALS: ReadonlySet<ErrorName> = new Set(['unauthorized', 'rate_limited', 'key_banned']);

/** Returns why no field got data, if the upstream refused each field that costs something. */
function findUpstreamRefusal(calls: readonly FieldCall[], outcomes: readonly Outcome[]): StoreError | undefined {
  let refusal: StoreError | undefined;
  for (const [index, { json, failures }] of outcomes.entries()) {
    if (calls[index]?.cost === 0) continue;
    const error = failures[0]?.error;
    if (json !== 'null' || (error && !UPSTREAM_REFUSALS.has(error.code))) return undefined;
    refusal ??= error;
  }
  return refusal;
}

/**
 * Turns an upstream refusal of every field into a refusal of the operation. A 401 counts for the client's address, as
 * if the gateway had known before.
 */
async function refuse(refusal: StoreError, cost: number, session: Session): Promise<never> {
  if (refusal.code !== 'unauthorized') throw withCost(refusal, cost);
  try {
    await session.requireKey();
  } catch (error) {
    if (error instanceof StoreError && error.code === 'rate_limited') throw error;
  }
  throw refusal;
}
