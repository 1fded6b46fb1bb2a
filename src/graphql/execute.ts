import { chain } from '../access/maybe-promise.js';
import type { Session } from '../access/session.js';
import type { RequestContext } from '../http/request-context.js';
import { startSpan, type Tracer } from '../observability/tracing.js';
import { completeIdempotencyKey, parseIdempotencyKey } from '../pets/idempotency-key.js';
import { createPetLoader } from '../pets/pet-loader.js';
import type { PetSource } from '../pets/pet-source.js';
import { isIntrospection } from './document.js';
import type { DocumentLimits } from './document-limits.js';
import type { OperationRecorder } from './operation-recorder.js';
import type { Prepare, Prepared } from './prepare.js';
import type { PreparedDocuments } from './prepared-documents.js';
import type { RateLimitGuard } from './rate-limit-guard.js';
import { Refusal } from './refusal.js';
import { RequestCall } from './request-call.js';
import type { OperationRequest } from './request.js';
import { writeRefusal, writeResponse, type OperationResponse } from './response.js';
import { price, run, type Executed, type OperationContext, type Priced } from './run.js';
import { mapConcurrently, mapInOrder } from './steps.js';

export interface ExecuteOptions {
  readonly prepare: Prepare;
  readonly documents: PreparedDocuments;
  readonly documentLimits: DocumentLimits;
  readonly source: PetSource;
  readonly guardRateLimit: RateLimitGuard;
  readonly recorder: OperationRecorder;
  readonly tracer: Tracer;
  readonly maxResponseBytes: number;
}

/** Creates the straight line that every operation takes. */
export function createExecute(options: ExecuteOptions) {
  const { prepare, documents, documentLimits, source, guardRateLimit, recorder, tracer, maxResponseBytes } = options;

  return execute;

  /**
   * Executes the operations of one HTTP request: prepare → price → admit → run → write. A refused operation skips the
   * steps that are left. Returns the responses in the same order.
   */
  async function execute(
    requests: readonly OperationRequest[],
    context: RequestContext,
    session: Session,
  ): Promise<readonly OperationResponse[]> {
    const startedAt = performance.now();
    const { requestId } = context;
    const { contexts, spans } = createContexts(requests.length, context, session);

    const prepared = await mapConcurrently(requests, (request) =>
      session.keyId === undefined ? prepareWithoutKey(request, context, session) : prepare(request, context),
    );
    const priced = await mapInOrder(prepared, context, (operation) =>
      price(operation, documentLimits.maxResponseValues),
    );
    // Nothing admits these, so nothing else asks whether another instance has banned the key.
    if (priced.some((operation) => operation instanceof Refusal)) await session.admit(0);
    const { admitted, executed } = await admitAndRun(priced, contexts, context, session);
    await context.takeTurn(requests.length > 1);
    const budget = { maxBytes: maxResponseBytes, written: 0 };
    const written = await mapInOrder(executed, context, (operation) => writeResponse(operation, requestId, budget));
    const responses = written.map((response) =>
      response instanceof Refusal ? writeRefusal(response, requestId) : response,
    );

    const answered = admitted.map((operation, index) => ({
      operation: operation.operation,
      cost: operation instanceof Refusal ? 0 : operation.cost,
      response: responses[index] as OperationResponse,
      span: spans?.[index],
    }));
    recorder.record(answered, (performance.now() - startedAt) / 1_000, context, session.keyId);
    return responses;
  }

  /** Without a key, an operation may only ask about the schema. Reading its document takes a turn. */
  async function prepareWithoutKey(
    request: OperationRequest,
    context: RequestContext,
    session: Session,
  ): Promise<Prepared | Refusal> {
    await context.takeTurn(true);
    const [prepared] = (await mapConcurrently([request], () => prepare(request, context))) as [Prepared | Refusal];
    const text = prepared instanceof Refusal ? request.query : prepared.source.text;
    const isForSchema = text !== undefined && isIntrospection(text, request.operationName, documentLimits.maxTokens);
    if (!isForSchema) await session.requireKey();
    return prepared;
  }

  async function admitAndRun(
    operations: readonly (Priced | Refusal)[],
    contexts: readonly OperationContext[],
    context: RequestContext,
    session: Session,
  ) {
    const admitted: (Priced | Refusal)[] = [];
    const executed: (Executed | Refusal)[] = [];
    while (executed.length < operations.length) {
      const start = executed.length;
      const next = operations.slice(start, session.areLimitsUnknown ? start + 1 : undefined);
      const some = await mapInOrder(next, context, (operation) =>
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

  function createContexts(count: number, context: RequestContext, session: Session) {
    const { keyId } = session;
    const key = keyId === undefined ? undefined : parseIdempotencyKey(context.header('idempotency-key'), keyId);
    const { span } = context;
    const spans = span.isRecording()
      ? Array.from({ length: count }, () => startSpan(tracer, 'internal', 'GraphQL Operation', { span }))
      : undefined;
    // What the operations of a batch ask for together belongs to none of them.
    const call = new RequestCall(context, session.upstreamKey, (count === 1 ? spans?.[0] : undefined) ?? span);
    const loader = createPetLoader(source, call);
    const contexts = Array.from({ length: count }, (_, entry): OperationContext => {
      const own = spans && count > 1 ? new RequestCall(context, session.upstreamKey, spans[entry] ?? span) : call;
      const keyOfAddition = key && ((position: number) => completeIdempotencyKey(key, entry, position));
      return { session, call: own, source, loader, keyOfAddition, guardRateLimit };
    });
    return { contexts, spans };
  }
}

export type Execute = ReturnType<typeof createExecute>;
