import { setImmediate } from 'node:timers/promises';
import type { MaybePromise } from '../access/maybe-promise.js';
import type { RateLimitGuard, Session } from '../access/session.js';
import type { Config } from '../config.js';
import { StoreError } from '../errors.js';
import type { HttpRequest } from '../http/request.js';
import { completeIdempotencyKey, parseIdempotencyKey, type IdempotencyKey } from '../pets/idempotency-key.js';
import { createPetLoader } from '../pets/pet-loader.js';
import type { PetSource } from '../pets/pet-source.js';
import { findLookupRefusal, type Brownout } from '../pets/removal.js';
import { RequestErrors } from './errors.js';
import { toDocumentMs } from './limits.js';
import type { Prepare } from './prepare.js';
import { price } from './prices.js';
import { run, writeRefusal } from './run.js';
import type { ExecutedOperation, OperationRequest, Prepared } from './types.js';

/** An operation on its way. One with a response skips the steps that are left. */
type BatchEntry = Partial<ExecutedOperation> & { idempotencyKey?: IdempotencyKey };

/** In a response: a hundred animals of an unknown status may have it at many places each. */
const MAX_STATUS_ERRORS = 1_000;
/** After this time, a batch lets other requests run, in milliseconds. */
const LONG_MS = 2;

/**
 * Creates the straight line that every operation takes: prepare → price → admit → run → write.
 * @param limits - of all operations of one HTTP request together
 */
export function createExecute(
  prepare: Prepare,
  source: PetSource,
  guardRateLimit: RateLimitGuard,
  limits: Pick<Config['limits'], 'maxRootFields' | 'maxResponseBytes'>,
  brownouts: readonly Brownout[] = [],
) {
  /** The operations of one HTTP request are prepared and admitted in order, and then run concurrently. */
  return async function execute(requests: readonly OperationRequest[], http: HttpRequest, session: Session) {
    const entries: BatchEntry[] = [];
    const refuse = (entry: BatchEntry, thrown: unknown): void => {
      entry.response = writeRefusal(thrown, http.requestId, entry.prepared?.compiled);
    };

    let bytes = limits.maxResponseBytes;
    let fields = limits.maxRootFields;
    let preparingMs = 0;
    for (const request of requests) {
      const entry: BatchEntry = {};
      entries.push(entry);
      const startedAt = performance.now();
      try {
        const found =
          session.keyId === undefined
            ? requireSchemaOnly(() => prepare(request, http, entry), session)
            : prepare(request, http, entry);
        const prepared = found instanceof Promise ? await found : found;
        entry.prepared = prepared;
        const {
          namesLookup,
          fields: { length },
        } = prepared.compiled;
        if (namesLookup) requireLookups(brownouts);
        if (length > fields) {
          const reason = `The operations of one HTTP request may have ${limits.maxRootFields} root fields together`;
          throw new StoreError('unprocessable_request', `${reason}; these have more.`);
        }
        const priced = price(prepared, limits.maxResponseBytes, bytes, session.readOnly);
        if (prepared.operation.type === 'mutation' && priced.cost > 0) {
          entry.idempotencyKey = parseIdempotencyKey(http.header('idempotency-key'), session.keyId);
        }
        bytes -= priced.maxBytes;
        fields -= length;
        entry.priced = priced;
      } catch (thrown) {
        refuse(entry, thrown);
      }
      const usedMs = performance.now() - startedAt;
      preparingMs += toDocumentMs(usedMs, request.query ?? '');
      // New documents and introspection take milliseconds, and a batch has many.
      if (usedMs > LONG_MS && requests.length > 1) await setImmediate();
    }

    // Refused operations are never admitted, so check for a ban here.
    if (entries.some(({ response }) => response)) await session.admit(0);
    for (const entry of entries) {
      if (!entry.priced) continue;
      try {
        const admission = session.admit(entry.priced.charge);
        if (admission) await admission;
      } catch (thrown) {
        refuse(entry, thrown);
        delete entry.priced;
      }
    }

    const load = createPetLoader(source, http);
    const statusErrors = { left: MAX_STATUS_ERRORS };
    const runEntry = async (entry: BatchEntry, index: number): Promise<void> => {
      const { prepared, priced } = entry;
      if (!prepared || !priced) return;
      let position = 0;
      const nextIdempotencyKey = () =>
        entry.idempotencyKey && completeIdempotencyKey(entry.idempotencyKey, index, position++);
      try {
        const context = { priced, session, call: http, source, load, nextIdempotencyKey, guardRateLimit, statusErrors };
        entry.response = await run(prepared, priced, context);
      } catch (thrown) {
        refuse(entry, thrown);
      }
    };
    if (entries.length === 1) await runEntry(entries[0] as BatchEntry, 0);
    else await Promise.all(entries.map(runEntry));
    return { answers: entries as readonly ExecutedOperation[], preparingMs };
  };
}

/** @throws RequestErrors during a brownout, as after the removal of the field */
function requireLookups(brownouts: readonly Brownout[]): void {
  const refusal = findLookupRefusal(brownouts);
  if (refusal === undefined) return;
  const message = `Cannot query field "pet" on type "Query". ${refusal}`;
  throw new RequestErrors(422, [{ message, extensions: { code: 'GRAPHQL_VALIDATION_FAILED' } }]);
}

/**
 * Finds the operation of a request without a key. Only introspection runs: any other document, valid or not, gets 401,
 * except for one that cannot be parsed.
 */
async function requireSchemaOnly(find: () => MaybePromise<Prepared>, session: Session): Promise<Prepared> {
  try {
    const prepared = await find();
    if (prepared.compiled.isSchemaOnly) return prepared;
  } catch (thrown) {
    // The budget for new documents applies without a key, too.
    if (thrown instanceof StoreError && thrown.code === 'rate_limited') throw thrown;
    if (thrown instanceof RequestErrors && thrown.status === 400) throw thrown;
  }
  await session.requireKey();
  throw new Error('the session of a request without a key has let it pass');
}
