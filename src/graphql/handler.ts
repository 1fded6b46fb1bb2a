import { chain, type MaybePromise } from '../access/maybe-promise.js';
import type { Access, Session } from '../access/session.js';
import { outcomeOf, type UsageCounter } from '../access/usage.js';
import { StoreError, toStoreError } from '../errors.js';
import type { Cors } from '../http/cors.js';
import type { RequestContext, Reply } from '../http/request-context.js';
import { chooseMediaType, prefersHtml } from '../http/media-type.js';
import { PAGE_HEADERS } from '../http/page-headers.js';
import { REVALIDATED } from '../http/representation.js';
import { logFailures, type Handler } from '../http/server.js';
import type { Log } from '../observability/log.js';
import type { Metrics, OperationOutcome } from '../observability/metrics.js';
import { startSpan, type Tracer } from '../observability/tracing.js';
import { completeIdempotencyKey, parseIdempotencyKey } from '../pets/idempotency-key.js';
import { createPetLoader } from '../pets/pet-loader.js';
import type { Call, PetSource } from '../pets/pet-source.js';
import type { OperationContext } from './context.js';
import { isIntrospectionText, type DocumentLimits } from './document-limits.js';
import { endOperationSpan } from './operation-span.js';
import type { Prepare, Prepared } from './prepare.js';
import type { PreparedDocuments, PreparedOperation } from './prepared-documents.js';
import type { RateLimitGuard } from './rate-limit-guard.js';
import { Refusal } from './refusal.js';
import { readBodyRequest, readGetRequest, type OperationRequest } from './request.js';
import { RequestCall } from './request-call.js';
import {
  toBatchHead,
  toStatus,
  writeRefusal,
  writeResponse,
  type OperationResponse,
  type ResponseRoom,
} from './response.js';
import { inOrder, together } from './steps.js';
import { price, run, type Executed, type Priced } from './run.js';

export interface GraphqlHandlerOptions {
  readonly prepare: Prepare;
  readonly documents: PreparedDocuments;
  readonly documentLimits: DocumentLimits;
  readonly source: PetSource;
  readonly access: Access;
  /** Absent where another store counts. */
  readonly usage: UsageCounter | undefined;
  readonly guardRateLimit: RateLimitGuard;
  readonly cors: Cors;
  readonly log: Log;
  readonly metrics: Metrics;
  readonly tracer: Tracer;
  readonly introspection: boolean;
  /** Whether usage marks the operations of documents that are not trusted. */
  readonly marksUntrusted: boolean;
  /** Renders the page for browsers; absent: there is none. */
  readonly renderLandingPage?: ((search: string) => Promise<string>) | undefined;
  readonly maxBodyBytes: number;
  readonly maxBatch: number;
  readonly maxResponseBytes: number;
}

/** Writing the responses of a batch gives way to other requests each time that this many bytes are written. */
const BYTES_PER_TURN = 262_144;
/** The media types of https://http-spec.graphql.org/September2026/#sec-Media-Types, the default first. */
const MEDIA_TYPES = ['application/json; charset=utf-8', 'application/graphql-response+json; charset=utf-8'];
/** https://www.rfc-editor.org/rfc/rfc10008#name-the-accept-query-header-fie */
const SAFE_METHOD_HEADERS = { ...REVALIDATED, 'Accept-Query': 'application/json' };
/** In addition to the policy in the page, which names Apollo's CDN and the nonce of its own scripts. */
const LANDING_PAGE_POLICY = "frame-ancestors 'none'; form-action 'none'; object-src 'none'";

/** Makes the handler of /graphql. */
export function createGraphqlHandler(options: GraphqlHandlerOptions): Handler {
  const { prepare, documents, documentLimits, source, access, usage, guardRateLimit, cors, log, metrics } = options;
  const { tracer, introspection, marksUntrusted, renderLandingPage, maxResponseBytes } = options;

  return async (context) => {
    context.route = '/graphql';
    let session: Session;
    try {
      const opened = access.open(context.header('authorization'), context.client.network, context.span);
      session = opened instanceof Promise ? await opened : opened;
    } catch (thrown) {
      return refuse(context, thrown);
    }
    context.logged.keyId = session.keyId;
    if (session.isKeyAccepted && session.keyId) context.identify(session.keyId);
    let reply: Reply;
    try {
      reply = await answer(context, session);
    } catch (thrown) {
      reply = refuse(context, thrown);
      const facts = { operation: undefined, cost: 0 };
      count(facts, { hasData: false, hasErrors: true, failures: [toStoreError(thrown)] }, context, session);
    }
    session.close();
    const allowance = session.allowance();
    const left = allowance instanceof Promise ? await allowance : allowance;
    const headers = context.method === 'POST' ? reply.headers : { ...SAFE_METHOD_HEADERS, ...reply.headers };
    return { status: reply.status, headers, body: reply.body, windows: left?.windows };
  };

  async function answer(context: RequestContext, session: Session): Promise<Reply> {
    const { method } = context;
    if (cors.isPreflight(context)) return { status: 204, headers: cors.preflightHeaders(context), body: '' };
    if (method !== 'GET' && method !== 'POST' && method !== 'QUERY') {
      throw new StoreError('method_not_allowed', '/graphql takes GET, POST and QUERY.', {
        headers: { Allow: 'GET, POST, QUERY' },
      });
    }
    if (renderLandingPage && prefersHtml(context, MEDIA_TYPES)) return toPage(await renderLandingPage(context.search));
    const passed = session.keyId || session.isKeyRefused || !introspection ? session.requireKey() : undefined;
    if (passed instanceof Promise) await passed;
    const mediaType = chooseMediaType(context.header('accept'), MEDIA_TYPES);
    const { isBatch, operations } =
      method === 'GET'
        ? readGetRequest(context)
        : await readBodyRequest(context, { ...options, maxTokens: documentLimits.maxTokens });
    const responses = await execute(operations, context, session);
    if (isBatch) {
      const { status, headers } = toBatchHead(responses);
      const body = `[${responses.map(({ text }) => text).join()}]`;
      return { status, headers: { 'Content-Type': mediaType, ...headers }, body };
    }
    const [response] = responses as [OperationResponse];
    const { headers, text } = response;
    return { status: toStatus(response, mediaType), headers: { 'Content-Type': mediaType, ...headers }, body: text };
  }

  /** The straight line: prepare → price → admit → run → write. A refused operation skips the steps that are left. */
  async function execute(
    requests: readonly OperationRequest[],
    context: RequestContext,
    session: Session,
  ): Promise<readonly OperationResponse[]> {
    const startedAt = performance.now();
    const { requestId } = context;
    const { contexts, spans } = createContexts(requests.length, context, session);
    const room: ResponseRoom = { maxBytes: maxResponseBytes, written: 0 };

    const prepared = await together(requests, (request) => prepareFor(session, request, context));
    const priced = await together(prepared, (operation) => price(operation, documentLimits.maxResponseValues));
    const admitted = await inOrder(priced, (operation) => admit(operation, session));
    const executed = await together(admitted, (operation, index) =>
      run(operation, contexts[index] as OperationContext),
    );
    const responses: OperationResponse[] = [];
    let turnEnd = 0;
    for (const operation of executed) {
      if (room.written >= turnEnd) {
        const turn = context.takeTurn(turnEnd > 0);
        if (turn) await turn;
        turnEnd = room.written + BYTES_PER_TURN;
      }
      responses.push(write(operation, requestId, room));
    }

    const facts = admitted.map((operation): OperationFacts => {
      if (!(operation instanceof Refusal)) return { operation: operation.operation, cost: operation.cost };
      return { operation: operation.parts.operation, cost: 0 };
    });
    const { call } = contexts[0] as OperationContext;
    const seconds = (performance.now() - startedAt) / 1_000;
    responses.forEach((response, index) => {
      const fact = facts[index] as OperationFacts;
      const { type = 'unknown', name, isPinned } = fact.operation ?? {};
      metrics.observeOperation(type, toOutcome(response, call), seconds, isPinned ? name : undefined);
      const span = spans?.[index];
      if (span) endOperationSpan(span, fact, response);
      count(fact, response, context, session);
    });
    const failures = responses.flatMap((response) => response.failures);
    // A request that fails because its client has left is no failure of ours.
    if (!call.isCancelled) logFailures(log, failures, requestId);
    context.logged.cost = facts.reduce((sum, { cost }) => sum + cost, 0);
    context.logged.operations = facts.map(({ operation }) => toLoggedName(operation)).join();
    return responses;
  }

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

  /** Counts an operation for the key that sent it. */
  function count(
    { operation, cost }: OperationFacts,
    response: Pick<OperationResponse, 'hasData' | 'hasErrors' | 'failures'>,
    context: RequestContext,
    { keyId }: Session,
  ): void {
    const isDeprecated = response.hasData && operation !== undefined && operation.deprecations.length > 0;
    if (isDeprecated) Object.assign(context.logged, { deprecated: true, client: context.clientName });
    if (!usage || keyId === undefined) return;
    const mark = marksUntrusted && operation?.isPinned === false ? UNTRUSTED : '';
    usage.count({
      keyId,
      client: context.clientName,
      operation: mark + toLoggedName(operation),
      deprecated: isDeprecated ? operation.deprecations.map(({ coordinate }) => coordinate).join() : '',
      cost,
      outcome: outcomeOf(response.hasErrors, response.failures),
    });
  }

  function refuse(context: RequestContext, thrown: unknown): Reply {
    const error = toStoreError(thrown);
    if (!context.isCancelled) logFailures(log, [error], context.requestId);
    return toErrorReply(context, error);
  }
}

/** What is known of an operation that has been answered. */
export interface OperationFacts {
  /** Absent when the operation could not be prepared. */
  readonly operation: PreparedOperation | undefined;
  /** Requests charged. */
  readonly cost: number;
}

function write(operation: Executed | Refusal, requestId: string, room: ResponseRoom): OperationResponse {
  if (operation instanceof Refusal) return writeRefusal(operation, requestId);
  try {
    return writeResponse(operation, requestId, room);
  } catch (thrown) {
    return writeRefusal(Refusal.of(thrown, operation.operation), requestId);
  }
}

function toOutcome({ hasData, hasErrors, failures }: OperationResponse, call: Call): OperationOutcome {
  if (hasData && !hasErrors) return 'ok';
  if (failures.some(({ status }) => status >= 500)) return call.isCancelled ? 'cancelled' : 'failed';
  return hasData ? 'error' : 'refused';
}

/** Precedes the names of operations that are not trusted. No name in GraphQL has a colon. */
const UNTRUSTED = 'untrusted:';
/** Characters of an operation's name in the log. */
const MAX_LOGGED_NAME = 100;

function toLoggedName(operation: PreparedOperation | undefined): string {
  return operation?.name?.slice(0, MAX_LOGGED_NAME) ?? operation?.type ?? 'unknown';
}

function toPage(html: string): Reply {
  return {
    status: 200,
    headers: { ...PAGE_HEADERS, 'Content-Security-Policy': LANDING_PAGE_POLICY },
    body: html,
  };
}

/** The response to a request that is refused as a whole. */
function toErrorReply(context: RequestContext, error: StoreError): Reply {
  const { status, headers, text } = writeRefusal(Refusal.of(error), context.requestId);
  return { status, headers: { 'Content-Type': negotiateForError(context), ...headers }, body: text };
}

/** Makes a function that gives the same refusal to every request, without writing it anew each time. */
export function createGraphqlRefusal(error: StoreError): (context: RequestContext) => Reply {
  const { status, headers, text } = writeRefusal(Refusal.of(error), REQUEST_ID_PLACE);
  const [before, after] = text.split(REQUEST_ID_PLACE) as [string, string];
  return (context) => ({
    status,
    headers: { 'Content-Type': negotiateForError(context), ...headers },
    body: before + context.requestId + after,
  });
}

const REQUEST_ID_PLACE = '{request-id}';

/** The media type of a refusal: the one asked for, or the default when the `Accept` header is the reason. */
function negotiateForError(context: RequestContext): string {
  try {
    return chooseMediaType(context.header('accept'), MEDIA_TYPES);
  } catch {
    return MEDIA_TYPES[0] as string;
  }
}
