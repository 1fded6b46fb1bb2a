import { chain, type MaybePromise } from '../access/maybe-promise.js';
import type { Session } from '../access/session.js';
import { RequestCall, type HttpRequest } from '../http/request.js';
import { completeIdempotencyKey, parseIdempotencyKey } from '../pets/idempotency-key.js';
import { createPetLoader } from '../pets/pet-loader.js';
import type { PetSource } from '../pets/pet-source.js';
import { isIntrospection } from './document.js';
import type { DocumentLimits } from './document-limits.js';
import { Refusal } from './errors.js';
import type { OperationRecorder } from './operation-recorder.js';
import type { Prepare, Prepared } from './prepare.js';
import type { PreparedDocuments } from './prepared-documents.js';
import { price, type Priced } from './prices.js';
import type { RateLimitGuard } from './rate-limit-guard.js';
import type { OperationRequest } from './request.js';
import { writeRefusal, writeResponse, type OperationResponse } from './response.js';
import { run, type Executed, type OperationContext } from './run.js';

export interface ExecuteOptions {
  readonly prepare: Prepare;
  readonly documents: PreparedDocuments;
  readonly documentLimits: DocumentLimits;
  readonly source: PetSource;
  readonly guardRateLimit: RateLimitGuard;
  readonly recorder: OperationRecorder;
  readonly maxResponseBytes: number;
}

/** Creates the straight line that every operation takes. */
export function createExecute(options: ExecuteOptions) {
  const { prepare, documents, documentLimits, source, guardRateLimit, recorder, maxResponseBytes } = options;

  return execute;

  /**
   * Executes the operations of one HTTP request: prepare → price → admit → run → write. A refused operation skips the
   * steps that are left. Returns the responses in the same order.
   */
  async function execute(requests: readonly OperationRequest[], context: HttpRequest, session: Session) {
    const startedAt = performance.now();
    const { requestId } = context;
    const contexts = createContexts(requests.length, context, session);

    const prepared = await mapConcurrently(requests, (request) =>
      session.keyId === undefined ? prepareWithoutKey(request, context, session) : prepare(request, context),
    );
    const priced = await mapInOrder(prepared, (operation) => price(operation, documentLimits.maxResponseValues));
    // Nothing admits these, so nothing else asks whether another instance has banned the key.
    if (priced.some((operation) => operation instanceof Refusal)) await session.admit(0);
    const { admitted, executed } = await admitAndRun(priced, contexts, context, session);
    const budget = { maxBytes: maxResponseBytes, written: 0 };
    const written = await mapInOrder(executed, (operation) => writeResponse(operation, requestId, budget));
    const responses = written.map((response) =>
      response instanceof Refusal ? writeRefusal(response, requestId) : response,
    );

    const answered = admitted.map((operation, index) => ({
      operation: operation.operation,
      cost: operation instanceof Refusal ? 0 : operation.cost,
      response: responses[index] as OperationResponse,
    }));
    const seconds = (performance.now() - startedAt) / 1_000;
    return { responses, ...recorder.record(answered, seconds, context, session.keyId) };
  }

  /** Without a key, an operation may only ask about the schema. */
  async function prepareWithoutKey(
    request: OperationRequest,
    context: HttpRequest,
    session: Session,
  ): Promise<Prepared | Refusal> {
    const prepared: Prepared | Refusal = await runStep(request, 0, () => prepare(request, context));
    const text = prepared instanceof Refusal ? request.query : prepared.source.text;
    const isForSchema = text !== undefined && isIntrospection(text, request.operationName, documentLimits.maxTokens);
    if (!isForSchema) await session.requireKey();
    return prepared;
  }

  async function admitAndRun(
    operations: readonly (Priced | Refusal)[],
    contexts: readonly OperationContext[],
    context: HttpRequest,
    session: Session,
  ) {
    const admitted: (Priced | Refusal)[] = [];
    const executed: (Executed | Refusal)[] = [];
    while (executed.length < operations.length) {
      const start = executed.length;
      const next = operations.slice(start);
      const some = await mapInOrder(next, (operation) =>
        chain(session.admit(operation.cost), () => {
          if (operation.cost > 0) documents.promote(operation.document);
          return operation;
        }),
      );
      const done = await mapConcurrently(some, (operation, index) =>
        run(operation, contexts[start + index] as OperationContext),
      );
      admitted.push(...some);
      executed.push(...done);
    }
    return { admitted, executed };
  }

  function createContexts(count: number, context: HttpRequest, session: Session) {
    const { keyId } = session;
    const key = keyId === undefined ? undefined : parseIdempotencyKey(context.header('idempotency-key'), keyId);
    const call = new RequestCall(context, session.upstreamKey);
    const loader = createPetLoader(source, call);
    return Array.from({ length: count }, (_, entry): OperationContext => {
      const keyOfAddition = key && ((position: number) => completeIdempotencyKey(key, entry, position));
      return { session, call, source, loader, keyOfAddition, guardRateLimit };
    });
  }
}

type Step<In, Out> = (operation: In, index: number) => MaybePromise<Out | Refusal>;

/** Takes all operations of a request through a step at the same time. */
async function mapConcurrently<In, Out>(
  operations: readonly (In | Refusal)[],
  step: Step<In, Out>,
): Promise<(Out | Refusal)[]> {
  const started = operations.map((operation, index) => runStep(operation, index, step));
  const results: (Out | Refusal)[] = [];
  for (const result of started) results.push(result instanceof Promise ? await result : result);
  return results;
}

/** Takes the operations of a request through a step one after the other. */
async function mapInOrder<In, Out>(
  operations: readonly (In | Refusal)[],
  step: Step<In, Out>,
): Promise<(Out | Refusal)[]> {
  const results: (Out | Refusal)[] = [];
  for (const [index, operation] of operations.entries()) {
    const result = runStep(operation, index, step);
    results.push(result instanceof Promise ? await result : result);
  }
  return results;
}

/** Runs a step, and turns what it throws into a refusal. Returns a promise only if the step does: most need not wait. */
function runStep<In, Out>(operation: In | Refusal, index: number, step: Step<In, Out>): MaybePromise<Out | Refusal> {
  if (operation instanceof Refusal) return operation;
  const refuse = (thrown: unknown): Refusal => Refusal.of(thrown, (operation as Partial<Prepared>).operation);
  try {
    const result = step(operation, index);
    return result instanceof Promise ? result.catch(refuse) : result;
  } catch (thrown) {
    return refuse(thrown);
  }
}
