import { chain, type MaybePromise } from '../access/maybe-promise.js';
import type { Session } from '../access/session.js';
import type { RequestContext } from '../http/request-context.js';
import { startSpan, type Tracer } from '../observability/tracing.js';
import { completeIdempotencyKey, parseIdempotencyKey } from '../pets/idempotency-key.js';
import { createPetLoader } from '../pets/pet-loader.js';
import type { PetSource } from '../pets/pet-source.js';
import type { OperationContext } from './context.js';
import { isIntrospectionText, type DocumentLimits } from './document-limits.js';
import type { OperationRecorder } from './operation-recorder.js';
import type { Prepare, Prepared } from './prepare.js';
import type { PreparedDocuments } from './prepared-documents.js';
import type { RateLimitGuard } from './rate-limit-guard.js';
import { Refusal } from './refusal.js';
import { RequestCall } from './request-call.js';
import type { OperationRequest } from './request.js';
import { writeRefusal, writeResponse, type OperationResponse, type ResponseRoom } from './response.js';
import { price, run, type Executed, type Priced } from './run.js';
import { inOrder, together } from './steps.js';

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

/** Executes the operations of one HTTP request. Returns their responses in the same order. */
export type Execute = (
  requests: readonly OperationRequest[],
  context: RequestContext,
  session: Session,
) => Promise<readonly OperationResponse[]>;

/** Pricing and writing the operations of a batch give way to other requests after this time, in milliseconds. */
const TURN_MS = 5;

/** Creates the straight line that every operation takes. */
export function createExecute(options: ExecuteOptions): Execute {
  const { prepare, documents, documentLimits, source, guardRateLimit, recorder, tracer, maxResponseBytes } = options;

  /** prepare → price → admit → run → write. A refused operation skips the steps that are left. */
  return async (requests, context, session) => {
    const startedAt = performance.now();
    const { contexts, spans } = createContexts(requests.length, context, session);

    const prepared = await together(requests, (request) => prepareFor(session, request, context));
    const giveWay = createGiveWay(context, requests.length > 1);
    const priced = await inOrder(prepared, (operation) =>
      chain(giveWay(), () => price(operation, documentLimits.maxResponseValues)),
    );
    const admitted = await inOrder(priced, (operation) => admit(operation, session));
    const executed = await together(admitted, (operation, index) =>
      run(operation, contexts[index] as OperationContext),
    );
    const responses = await writeAll(executed, context);

    const answered = admitted.map((admittedOne, index) => {
      const isRefused = admittedOne instanceof Refusal;
      const { operation } = isRefused ? admittedOne.parts : admittedOne;
      const response = responses[index] as OperationResponse;
      return { operation, cost: isRefused ? 0 : admittedOne.cost, response, span: spans?.[index] };
    });
    recorder.record(answered, (performance.now() - startedAt) / 1_000, context, session.keyId);
    return responses;
  };

  function prepareFor(
    session: Session,
    request: OperationRequest,
    context: RequestContext,
  ): MaybePromise<Prepared | Refusal> {
    const needsKey = session.keyId === undefined && !isIntrospectionText(request, documentLimits);
    return chain(needsKey ? session.requireKey() : undefined, () => prepare(request, context));
  }

  function admit(operation: Priced, session: Session): MaybePromise<Priced> {
    return chain(session.admit(operation.cost), () => {
      if (operation.cost > 0) documents.promote(operation.document);
      return operation;
    });
  }

  async function writeAll(
    operations: readonly (Executed | Refusal)[],
    context: RequestContext,
  ): Promise<OperationResponse[]> {
    const room: ResponseRoom = { maxBytes: maxResponseBytes, written: 0 };
    const responses: OperationResponse[] = [];
    const isBatch = operations.length > 1;
    const turn = context.takeTurn(isBatch);
    if (turn) await turn;
    const giveWay = createGiveWay(context, isBatch);
    for (const operation of operations) {
      const next = giveWay();
      if (next) await next;
      responses.push(write(operation, context.requestId, room));
    }
    return responses;
  }

  function createContexts(count: number, context: RequestContext, session: Session) {
    const key = parseIdempotencyKey(context.header('idempotency-key'), session.keyId);
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

/** Creates a function to call before each operation. It waits for another turn if this one has been long. */
function createGiveWay(context: RequestContext, isLong: boolean): () => MaybePromise<void> {
  let turnEnd = performance.now() + TURN_MS;
  return () => {
    if (performance.now() < turnEnd) return undefined;
    return chain(context.takeTurn(isLong), () => {
      turnEnd = performance.now() + TURN_MS;
    });
  };
}

function write(operation: Executed | Refusal, requestId: string, room: ResponseRoom): OperationResponse {
  if (operation instanceof Refusal) return writeRefusal(operation, requestId);
  try {
    return writeResponse(operation, requestId, room);
  } catch (thrown) {
    return writeRefusal(Refusal.of(thrown, operation.operation), requestId);
  }
}
