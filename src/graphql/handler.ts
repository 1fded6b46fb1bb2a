import { HeaderMap, type ApolloServer } from '@apollo/server';
import { parse } from 'graphql';
import Negotiator from 'negotiator';
import type { Access, Visit } from '../access/visit.js';
import { StoreError, toStoreError } from '../errors.js';
import type { Cors } from '../http/cors.js';
import type { Exchange, Reply } from '../http/exchange.js';
import { formatLimitHeaders } from '../http/limit-headers.js';
import { chooseMediaType } from '../http/media-type.js';
import { logFailure, type Handler } from '../http/server.js';
import type { Log } from '../observability/log.js';
import type { Metrics } from '../observability/metrics.js';
import { createPetLoader } from '../pets/pet-loader.js';
import type { PetSource } from '../pets/pet-source.js';
import type { OperationContext } from './context.js';
import { formatStoreError } from './format-error.js';
import { isIntrospection, MAX_TOKENS } from './operation.js';
import type { RateLimitGuard } from './rate-limit-guard.js';
import { readGetRequest, readPostRequest, type OperationRequest } from './request.js';
import {
  countRefusal,
  findUpstreamRefusal,
  toBatchHead,
  toHeaders,
  withRequestId,
  type OperationResponse,
} from './response.js';
import { createTurns } from './turnstile.js';

export interface GraphqlHandlerOptions {
  readonly server: ApolloServer<OperationContext>;
  readonly source: PetSource;
  readonly access: Access;
  readonly guardRateLimit: RateLimitGuard;
  readonly cors: Cors;
  readonly log: Log;
  readonly metrics: Metrics;
  readonly introspection: boolean;
  readonly landingPage: boolean;
  readonly maxBodyBytes: number;
  readonly maxBatch: number;
}

/** The media types of https://graphql.github.io/graphql-over-http/draft/#sec-Media-Types, the default first. */
const MEDIA_TYPES = ['application/json; charset=utf-8', 'application/graphql-response+json; charset=utf-8'];
const HTML = 'text/html';

/** Makes the handler of /graphql: HTTP around the operations that Apollo Server executes. */
export function createGraphqlHandler(options: GraphqlHandlerOptions): Handler {
  const { server, source, access, guardRateLimit, cors, log, metrics, introspection, landingPage } = options;

  return async (exchange) => {
    exchange.route = '/graphql';
    let visit: Visit;
    try {
      visit = await access.open(exchange.header('authorization'), exchange.address);
    } catch (thrown) {
      return refuse(exchange, thrown);
    }
    exchange.logged.keyId = visit.keyId;
    const reply = await answer(exchange, visit).catch((thrown: unknown) => refuse(exchange, thrown));
    visit.close();
    const allowance = await visit.allowance();
    return { ...reply, headers: { ...formatLimitHeaders(allowance?.windows ?? []), ...reply.headers } };
  };

  async function answer(exchange: Exchange, visit: Visit): Promise<Reply> {
    const { method } = exchange;
    if (cors.isPreflight(exchange)) return { status: 204, headers: cors.preflightHeaders(exchange), body: '' };
    if (method !== 'GET' && method !== 'POST') {
      throw new StoreError('method_not_allowed', '/graphql takes GET and POST.', { headers: { Allow: 'GET, POST' } });
    }
    if (landingPage && prefersHtml(exchange)) return renderLandingPage(exchange);
    if (visit.keyId || visit.isKeyRefused || !introspection) await visit.requireKey();
    const mediaType = chooseMediaType(exchange.header('accept'), MEDIA_TYPES);
    const { isBatch, operations } =
      method === 'GET' ? readGetRequest(exchange) : await readPostRequest(exchange, options);
    const responses = await run(operations, exchange, visit);
    const head = isBatch ? toBatchHead(responses) : (responses[0] as OperationResponse);
    const results = responses.map(({ result }) => result);
    return {
      status: head.status,
      headers: { 'Content-Type': mediaType, ...head.headers },
      body: JSON.stringify(isBatch ? results : results[0]),
    };
  }

  async function run(
    operations: readonly OperationRequest[],
    exchange: Exchange,
    visit: Visit,
  ): Promise<OperationResponse[]> {
    const call = {
      requestId: exchange.requestId,
      startedAt: exchange.startedAt,
      signal: exchange.signal,
      key: visit.upstreamKey,
      traceparent: exchange.traceparent,
    };
    const loader = createPetLoader({ source, call, batched: operations.length > 1 });
    const turns = createTurns(operations.length, (cost) => visit.admit(cost));
    const contexts = turns.map((turn): OperationContext => ({
      visit,
      call,
      source,
      loader,
      guardRateLimit,
      turn,
      report: { type: 'unknown', name: undefined, cost: 0, deprecations: [], failures: [] },
    }));
    const responses = await Promise.all(
      operations.map((operation, index) => execute(operation, contexts[index] as OperationContext, exchange.method)),
    );
    exchange.logged.cost = contexts.reduce((sum, { report }) => sum + report.cost, 0);
    exchange.logged.operations = contexts.map(({ report }) => report.name ?? report.type);
    contexts.forEach(({ report }, index) => {
      const { result, status } = responses[index] as OperationResponse;
      metrics.countOperation(report.type, status !== 200 ? 'refused' : result.errors ? 'error' : 'ok');
    });
    return responses;
  }

  async function execute(
    operation: OperationRequest,
    context: OperationContext,
    method: string,
  ): Promise<OperationResponse> {
    try {
      if (!context.visit.keyId && !asksAboutSchema(operation)) await context.visit.requireKey();
      const { body, http } = await server.executeOperation(
        { ...operation, http: { method, headers: NO_HEADERS, search: '', body: undefined } },
        { contextValue: context },
      );
      if (body.kind !== 'single')
        throw new Error('an operation answered in parts, which the schema has no directive for');
      const { data, errors } = body.singleResult;
      const { deprecations, failures } = context.report;
      const refusedUpstream = findUpstreamRefusal(data, failures);
      if (refusedUpstream) throw await countRefusal(refusedUpstream, context.visit);
      return {
        status: http.status ?? 200,
        headers: toHeaders(http.headers),
        result: {
          ...(errors && { errors: withRequestId(errors, context.call.requestId) }),
          ...(data !== undefined && { data }),
          ...(deprecations.length > 0 && { extensions: { deprecations } }),
        },
      };
    } catch (thrown) {
      return refusal(thrown, context.call.requestId);
    } finally {
      context.turn.leave();
    }
  }

  function refusal(thrown: unknown, requestId: string): OperationResponse {
    const error = toStoreError(thrown);
    logFailure(log, error, requestId);
    return {
      status: error.status,
      headers: toHeaders(Object.entries(error.headers)),
      result: { errors: withRequestId([formatStoreError(error)], requestId) },
    };
  }

  function refuse(exchange: Exchange, thrown: unknown): Reply {
    const { status, headers, result } = refusal(thrown, exchange.requestId);
    return {
      status,
      headers: { 'Content-Type': negotiateForError(exchange), ...headers },
      body: JSON.stringify(result),
    };
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
    return { status: 200, headers: { 'Content-Type': 'text/html; charset=utf-8' }, body: body.string };
  }
}

const NO_HEADERS = new HeaderMap();

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

/** Tells whether an operation needs no key. What cannot be parsed asks for nothing, and Apollo says what is wrong with it. */
function asksAboutSchema({ query, operationName }: OperationRequest): boolean {
  if (query === undefined) return false;
  try {
    return isIntrospection(parse(query, { maxTokens: MAX_TOKENS }), operationName);
  } catch {
    return true;
  }
}
