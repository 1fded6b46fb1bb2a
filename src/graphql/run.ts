import type { Session } from '../access/session.js';
import { StoreError, withCost, type ErrorName } from '../errors.js';
import type { IdempotencyKey } from '../pets/idempotency-key.js';
import type { PetLoader } from '../pets/pet-loader.js';
import type { Call, PetSource } from '../pets/pet-source.js';
import type { RootField } from './compile.js';
import { FieldError } from './errors.js';
import type { Price, Priced } from './prices.js';
import type { RateLimitGuard } from './rate-limit-guard.js';

/** What the resolvers of one operation work with. */
export interface OperationContext {
  readonly session: Session;
  readonly call: Call;
  readonly source: PetSource;
  /** Shared by all operations of the HTTP request. */
  readonly loader: PetLoader;
  /** The idempotency key of an `addPet` field, by its index among those of the operation; undefined when none was sent. */
  readonly keyOfAddition?: ((position: number) => IdempotencyKey) | undefined;
  readonly guardRateLimit: RateLimitGuard;
}

/** An operation that has run. */
export interface Executed extends Pick<Priced, 'operation' | 'fields' | 'source'> {
  /** What each field returned. */
  readonly results: readonly unknown[];
}

/**
 * Runs an admitted operation: calls its resolvers. What a resolver throws is the error of its field.
 * @throws StoreError when no field got data because an upstream refused the key or its rate
 */
export async function run(priced: Priced, context: OperationContext): Promise<Executed> {
  const { operation, fields, source, prices, cost } = priced;
  const isMutation = operation.type === 'mutation';
  const results = await (isMutation ? runInOrder(priced, context) : runTogether(priced, context));
  const refusal = findUpstreamRefusal(results, prices);
  if (refusal) throw await toWholeRefusal(refusal, cost, context.session);
  return { operation, fields, source, results };
}

/** Resolves when every field has settled. It needs one promise per field; `Promise.all` and a `catch` would need two. */
function runTogether({ fields, args }: Pick<Priced, 'fields' | 'args'>, context: OperationContext): Promise<unknown[]> {
  return new Promise((resolve) => {
    const results = new Array<unknown>(fields.length);
    let pending = fields.length;
    if (pending === 0) resolve(results);
    const settle = (index: number, result: unknown): void => {
      results[index] = result;
      pending -= 1;
      if (pending === 0) resolve(results);
    };
    fields.forEach((field, index) => {
      const result = call(field, args[index] as FieldArguments, context);
      if (result instanceof Promise) {
        result.then(
          (value) => settle(index, value),
          (error: unknown) => settle(index, FieldError.of(error)),
        );
      } else settle(index, result);
    });
  });
}

type FieldArguments = Priced['args'][number];

/** Calls the resolver of a field. It never throws. */
function call(field: RootField, args: FieldArguments, context: OperationContext): unknown {
  if (args instanceof FieldError) return args;
  try {
    return field.resolve(args, context);
  } catch (error) {
    return FieldError.of(error);
  }
}

const UNAVAILABLE: ReadonlySet<ErrorName> = new Set(['unavailable', 'overloaded']);

/** One field after the other: https://spec.graphql.org/October2021/#sec-Mutation */
async function runInOrder({ fields, args, prices }: Priced, context: OperationContext): Promise<unknown[]> {
  const results: unknown[] = [];
  // Once the store does not answer, each further field would only wait as long again.
  let failure: FieldError | undefined;
  for (const [index, field] of fields.entries()) {
    const isHopeless = failure && (prices[index] as Price).cost > 0;
    const [result] = isHopeless
      ? [failure]
      : await runTogether({ fields: [field], args: [args[index] as FieldArguments] }, context);
    if (result instanceof FieldError && UNAVAILABLE.has(result.cause.code)) failure = result;
    results.push(result);
  }
  return results;
}

const UPSTREAM_REFUSALS: ReadonlySet<ErrorName> = new Set(['unauthorized', 'rate_limited', 'key_banned']);

/** Why no field got data, when the upstream refused the key or its rate for each field that costs something. */
function findUpstreamRefusal(results: readonly unknown[], prices: readonly Price[]): StoreError | undefined {
  let refusal: StoreError | undefined;
  for (const [index, result] of results.entries()) {
    if (prices[index]?.cost === 0) continue;
    if (result instanceof FieldError) {
      if (!UPSTREAM_REFUSALS.has(result.cause.code)) return undefined;
      refusal ??= result.cause;
    } else if (result != null) return undefined;
  }
  return refusal;
}

/**
 * Makes the upstream's refusal of every field that of the operation: with its cost, and with a 401 counted for the
 * client's address, as if the gateway had known before.
 */
async function toWholeRefusal(refusal: StoreError, cost: number, session: Session): Promise<StoreError> {
  if (refusal.code !== 'unauthorized') return withCost(refusal, cost);
  try {
    await session.requireKey();
  } catch (error) {
    if (error instanceof StoreError && error.code === 'rate_limited') return error;
  }
  return refusal;
}
