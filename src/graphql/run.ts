import type { Session } from '../access/session.js';
import { StoreError, toStoreError, withCost, type ErrorName } from '../errors.js';
import type { Pet } from '../pets/pet.js';
import { InvalidArgument } from './errors.js';
import type { RootField, FieldCall, Priced, OperationContext, Failure, Outcome } from './types.js';

/**
 * Runs an admitted operation: calls its resolvers and writes what they return. What a resolver throws is the error of
 * its field.
 * @throws StoreError if no field got data because an upstream refused the key or its rate
 */
export async function run(priced: Priced, context: OperationContext): Promise<readonly Outcome[]> {
  const { isMutation, calls } = priced;
  const outcomes = await (isMutation ? runInOrder(calls, context) : runTogether(calls, context));
  const refusal = findUpstreamRefusal(calls, outcomes);
  if (refusal) await refuse(refusal, priced.cost, context.session);
  return outcomes;
}

/** Resolves when every field has settled. It needs one promise per field; `Promise.all` and a `catch` would need two. */
function runTogether(calls: readonly FieldCall[], context: OperationContext): Promise<Outcome[]> {
  return new Promise((resolve) => {
    const outcomes = new Array<Outcome>(calls.length);
    let pending = calls.length;
    if (pending === 0) resolve(outcomes);
    const settle = (index: number, outcome: Outcome): void => {
      outcomes[index] = outcome;
      pending -= 1;
      if (pending === 0) resolve(outcomes);
    };
    calls.forEach(({ field, resolve: call }, index) => {
      try {
        const value = call(context);
        if (!(value instanceof Promise)) return settle(index, toOutcome(field, value));
        value.then(
          (resolved) => settle(index, toOutcome(field, resolved)),
          (error: unknown) => settle(index, toFailure(field, error)),
        );
      } catch (error) {
        settle(index, toFailure(field, error));
      }
    });
  });
}

const UNAVAILABLE: ReadonlySet<ErrorName> = new Set(['unavailable', 'overloaded']);

/** One field after the other: https://spec.graphql.org/September2026/#sec-Mutation */
async function runInOrder(calls: readonly FieldCall[], context: OperationContext): Promise<Outcome[]> {
  const outcomes: Outcome[] = [];
  // Once the store does not answer, each further field would only wait as long again.
  let failure: StoreError | undefined;
  for (const call of calls) {
    const [outcome] = failure && call.cost > 0 ? [toFailure(call.field, failure)] : await runTogether([call], context);
    const [{ error } = { error: undefined }] = (outcome as Outcome).failures;
    if (error && UNAVAILABLE.has(error.code)) failure = error;
    outcomes.push(outcome as Outcome);
  }
  return outcomes;
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
  let failures = NO_FAILURES;
  const add = (pet: Pet | null | undefined, path: readonly (string | number)[]): void => {
    const error = pet?.statusError;
    if (!error) return;
    const found = statuses.map((status) => ({
      error,
      locations: status.locations,
      path: [...path, status.responseKey],
    }));
    failures = [...failures, ...found];
  };
  if (Array.isArray(value)) value.forEach((pet: Pet, index) => add(pet, [responseKey, index]));
  else add(value as Pet | null, [responseKey]);
  return failures;
}

const UPSTREAM_REFUSALS: ReadonlySet<ErrorName> = new Set(['unauthorized', 'rate_limited', 'key_banned']);

/** Returns why no field got data, if the upstream refused the key or its rate for each field that costs something. */
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
