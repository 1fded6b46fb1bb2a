import { HeaderMap, type ApolloServer } from '@apollo/server';
import Negotiator from 'negotiator';
import type { Access, Visit } from '../access/visit.js';
import type { DeprecatedCallCounter } from '../deprecated-calls/deprecated-calls.js';
import { StoreError, toStoreError } from '../errors.js';
import type { Cors } from '../http/cors.js';
import type { Exchange, Reply } from '../http/exchange.js';
import { chooseMediaType } from '../http/media-type.js';
import { PAGE_HEADERS } from '../http/page-headers.js';
import { logFailure, type Handler } from '../http/server.js';
import type { Log } from '../observability/log.js';
import type { Metrics, OperationOutcome } from '../observability/metrics.js';
import { startSpan, type Tracer } from '../observability/tracing.js';
import { completeIdempotencyKey, parseIdempotencyKey } from '../pets/idempotency-key.js';
import { RequestPetLoader } from '../pets/pet-loader.js';
import type { Call, PetSource } from '../pets/pet-source.js';
import type { OperationContext } from './context.js';
import type { Deprecation } from './deprecations.js';
import type { Executor } from './executor.js';
import { traceOperation } from './operation-span.js';
import type { RateLimitGuard } from './rate-limit-guard.js';
import { readGetRequest, readPostRequest, type OperationRequest } from './request.js';
import { RequestCall } from './request-call.js';
import { toBatchHead, toRefusal, type OperationResponse } from './response.js';
import { createTurns } from './turnstile.js';

export interface GraphqlHandlerOptions {
  /** Renders the landing page. */
  readonly server: ApolloServer<OperationContext>;
  readonly execute: Executor;
  readonly source: PetSource;
  readonly access: Access;
  /** Absent where another store counts. */
  readonly deprecatedCalls: DeprecatedCallCounter | undefined;
  readonly guardRateLimit: RateLimitGuard;
  readonly cors: Cors;
  readonly log: Log;
  readonly metrics: Metrics;
  readonly tracer: Tracer;
  readonly introspection: boolean;
  readonly landingPage: boolean;
  readonly maxBodyBytes: number;
  readonly maxBatch: number;
  /** Tokens that a document may have. */
  readonly maxTokens: number;
}

/** The media types of https://graphql.github.io/graphql-over-http/draft/#sec-Media-Types, the default first. */
const MEDIA_TYPES = ['application/json; charset=utf-8', 'application/graphql-response+json; charset=utf-8'];
const HTML = 'text/html';
/** In addition to the policy in the page, which names Apollo's CDN and the nonce of its own scripts. */
const LANDING_PAGE_POLICY = "frame-ancestors 'none'; form-action 'none'; object-src 'none'";
/** Characters of an operation's name in the log. */
const MAX_LOGGED_NAME = 100;

/** Makes the handler of /graphql: HTTP around the operations that Apollo Server executes. */
export function createGraphqlHandler(options: GraphqlHandlerOptions): Handler {
  const { server, execute, source, access, deprecatedCalls, guardRateLimit, cors, log, metrics, tracer } = options;
  const { introspection, landingPage } = options;

  return async (exchange) => {
    exchange.route = '/graphql';
    let visit: Visit;
    try {
      const opened = access.open(exchange.header('authorization'), exchange.address);
      visit = opened instanceof Promise ? await opened : opened;
    } catch (thrown) {
      return refuse(exchange, thrown);
    }
    exchange.logged.keyId = visit.keyId;
    let reply: Reply;
    try {
      reply = await answer(exchange, visit);
    } catch (thrown) {
      reply = refuse(exchange, thrown);
    }
    visit.close();
    const allowance = visit.allowance();
    const left = allowance instanceof Promise ? await allowance : allowance;
    return { status: reply.status, headers: reply.headers, body: reply.body, windows: left?.windows };
  };

  async function answer(exchange: Exchange, visit: Visit): Promise<Reply> {
    const { method } = exchange;
    if (cors.isPreflight(exchange)) return { status: 204, headers: cors.preflightHeaders(exchange), body: '' };
    if (method !== 'GET' && method !== 'POST') {
      throw new StoreError('method_not_allowed', '/graphql takes GET and POST.', { headers: { Allow: 'GET, POST' } });
    }
    if (landingPage && prefersHtml(exchange)) return renderLandingPage(exchange);
    const passed = visit.keyId || visit.isKeyRefused || !introspection ? visit.requireKey() : undefined;
    if (passed instanceof Promise) await passed;
    const mediaType = chooseMediaType(exchange.header('accept'), MEDIA_TYPES);
    const { isBatch, operations } =
      method === 'GET' ? readGetRequest(exchange) : await readPostRequest(exchange, options);
    const responses = await run(operations, exchange, visit);
    const head = isBatch ? toBatchHead(responses) : (responses[0] as OperationResponse);
    return {
      status: head.status,
      headers: { 'Content-Type': mediaType, ...head.headers },
      body: isBatch ? `[${responses.map(({ text }) => text).join()}]` : (responses[0] as OperationResponse).text,
    };
  }

  async function run(
    operations: readonly OperationRequest[],
    exchange: Exchange,
    visit: Visit,
  ): Promise<OperationResponse[]> {
    const startedAt = performance.now();
    const key = parseIdempotencyKey(exchange.header('idempotency-key'), visit.keyId);
    const { span } = exchange;
    const spans = span.isRecording()
      ? operations.map(() => startSpan(tracer, 'internal', 'GraphQL Operation', { span }))
      : undefined;
    const isOne = operations.length === 1;
    // What the operations of a batch ask for together belongs to none of them.
    const call = new RequestCall(exchange, visit.upstreamKey, (isOne ? spans?.[0] : undefined) ?? span);
    const loader = new RequestPetLoader({ source, call, batched: !isOne });
    const turns = createTurns(operations.length, (cost) => visit.admit(cost));
    const contexts = turns.map((turn, entry): OperationContext => ({
      visit,
      call: spans && !isOne ? new RequestCall(exchange, visit.upstreamKey, spans[entry] ?? span) : call,
      source,
      loader,
      keyOfAddition: key && ((position) => completeIdempotencyKey(key, entry, position)),
      guardRateLimit,
      turn,
      report: { type: 'unknown', name: undefined, cost: 0, endedAt: 0, deprecations: [], failures: [] },
    }));
    const executions = operations.map((operation, index) => {
      const context = contexts[index] as OperationContext;
      const execution = execute(operation, context, exchange.method);
      const operationSpan = spans?.[index];
      return operationSpan ? traceOperation(operationSpan, execution, context.report) : execution;
    });
    const responses = executions.length === 1 ? [await (executions[0] as Execution)] : await Promise.all(executions);
    let cost = 0;
    const names: string[] = [];
    contexts.forEach(({ report }, index) => {
      const response = responses[index] as OperationResponse;
      cost += report.cost;
      if (response.hasData && report.deprecations.length > 0) noteDeprecations(report.deprecations, exchange, visit);
      names.push(report.name?.slice(0, MAX_LOGGED_NAME) ?? report.type);
      metrics.observeOperation(report.type, toOutcome(response, report, call), (report.endedAt - startedAt) / 1_000);
    });
    exchange.logged.cost = cost;
    exchange.logged.operations = names.join();
    return responses;
  }

  /** An operation ran that uses what is deprecated. */
  function noteDeprecations(deprecations: readonly Deprecation[], exchange: Exchange, { keyId }: Visit): void {
    const client = exchange.clientName;
    Object.assign(exchange.logged, { deprecated: true, client });
    if (!deprecatedCalls || keyId === undefined) return;
    for (const { coordinate } of deprecations) deprecatedCalls.count({ keyId, client, through: 'graphql', coordinate });
  }

  function refuse(exchange: Exchange, thrown: unknown): Reply {
    const error = toStoreError(thrown);
    logFailure(log, error, exchange.requestId);
    return toErrorReply(exchange, error);
  }

  async function renderLandingPage(exchange: Exchange): Promise<Reply> {
    const { body } = await server.executeHTTPGraphQLRequest({
      httpGraphQLRequest: {
        method: 'GET',
        headers: new HeaderMap([['accept', HTML]]),
        search: exchange.search,
        body: undefined,
      },
      context: () => Promise.reject(new Error('a landing page needs no context')),
    });
    if (body.kind !== 'complete') throw new Error('the landing page came in parts');
    return {
      status: 200,
      headers: { ...PAGE_HEADERS, 'Content-Security-Policy': LANDING_PAGE_POLICY },
      body: body.string,
    };
  }
}

type Execution = ReturnType<Executor>;

function toOutcome(
  { hasData, hasErrors }: OperationResponse,
  { failures }: OperationContext['report'],
  call: Call,
): OperationOutcome {
  if (hasData && !hasErrors) return 'ok';
  if (failures.some(({ status }) => status >= 500)) return call.isCancelled ? 'cancelled' : 'failed';
  return hasData ? 'error' : 'refused';
}

/** An error as the answer to a whole GraphQL request. */
function toErrorReply(exchange: Exchange, error: StoreError): Reply {
  const { status, headers, text } = toRefusal(error, exchange.requestId);
  return { status, headers: { 'Content-Type': negotiateForError(exchange), ...headers }, body: text };
}

/** Makes what gives the same error to whoever asks, without making it anew each time. */
export function createGraphqlRefusal(error: StoreError): (exchange: Exchange) => Reply {
  const { status, headers, text } = toRefusal(error, REQUEST_ID_PLACE);
  const [before, after] = text.split(REQUEST_ID_PLACE) as [string, string];
  return (exchange) => ({
    status,
    headers: { 'Content-Type': negotiateForError(exchange), ...headers },
    body: before + exchange.requestId + after,
  });
}

const REQUEST_ID_PLACE = '{request-id}';

function prefersHtml(exchange: Exchange): boolean {
  const accept = exchange.header('accept');
  if (exchange.method !== 'GET' || !accept?.includes(HTML)) return false;
  return new Negotiator({ headers: { accept } }).mediaType([...MEDIA_TYPES, HTML]) === HTML;
}

/** The media type of a refusal: the one asked for, or the default when that is what is wrong. */
function negotiateForError(exchange: Exchange): string {
  try {
    return chooseMediaType(exchange.header('accept'), MEDIA_TYPES);
  } catch {
    return MEDIA_TYPES[0] as string;
  }
}
