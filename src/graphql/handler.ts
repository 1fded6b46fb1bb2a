import { rethrowUnlessBanned, type Session } from '../access/session.js';
import type { Backend } from '../backend.js';
import type { Config } from '../config.js';
import { StoreError, toStoreError } from '../errors.js';
import type { Cors } from '../http/cors.js';
import { requireUnambiguousHeaders, type Reply, type RequestContext } from '../http/request-context.js';
import { createMediaTypeChooser, prefersHtml } from '../http/media-type.js';
import { REVALIDATED } from '../http/representation.js';
import { logFailures, type Handler } from '../http/server.js';
import type { Log } from '../observability/log.js';
import type { Metrics } from '../observability/metrics.js';
import { startApollo } from './apollo.js';
import { createErrorFormatter } from './errors.js';
import { createExecute } from './execute.js';
import { createDocumentBudget, toDocumentLimits } from './limits.js';
import { createPrepare } from './prepare.js';
import { createRateLimitGuard } from './rate-limit.js';
import { createRecorder } from './record.js';
import { readBodyRequest, readGetRequest } from './request.js';
import { createSchema } from './resolvers.js';
import { toBatchReply, toReply, writeRefusal } from './response.js';
import { createPersistedQueries, createTrustedDocuments, openManifest } from './trusted.js';
import type { GraphqlRequest, OperationResponse } from './types.js';

/** What GraphQL shares with the other parts of the program. */
export interface GraphqlDependencies {
  readonly cors: Cors;
  readonly log: Log;
  readonly metrics: Metrics;
  readonly backend: Pick<Backend, 'source' | 'access' | 'usage'>;
}

/** The media types of https://http-spec.graphql.org/September2026/#sec-Media-Types, the default first. */
const MEDIA_TYPES = ['application/json; charset=utf-8', 'application/graphql-response+json; charset=utf-8'] as const;
/** https://www.rfc-editor.org/rfc/rfc10008#name-the-accept-query-header-fie */
const SAFE_METHOD_HEADERS = { ...REVALIDATED, 'Accept-Query': 'application/json' };
/** Other sites may not show the page in a frame, or learn which page a visitor came from. */
const PAGE_HEADERS = {
  'Content-Type': 'text/html; charset=utf-8',
  'X-Frame-Options': 'DENY',
  'Referrer-Policy': 'strict-origin-when-cross-origin',
  'Cross-Origin-Opener-Policy': 'same-origin-allow-popups',
  'Permissions-Policy': 'camera=(), geolocation=(), microphone=()',
  'Cache-Control': 'no-store',
  // In addition to the policy in the page, which names Apollo's CDN and the nonce of its own scripts.
  'Content-Security-Policy': "frame-ancestors 'none'; form-action 'none'; object-src 'none'",
};

/**
 * Puts /graphql together: its handler and what the handler needs.
 * @throws ConfigError if the manifest of trusted documents cannot be used
 */
export async function openGraphql(
  config: Config,
  { backend, cors, log, metrics }: GraphqlDependencies,
): Promise<{ handler: Handler; close: () => Promise<void> }> {
  const { introspection, explorer: hasPages, production } = config;
  const { source, access, usage } = backend;
  const { path, others = 'allowed' } = config.trustedDocuments ?? {};
  const { maxRootFields, maxResponseBytes } = config.limits;

  const schema = createSchema();
  const limits = toDocumentLimits(maxRootFields);
  const errors = createErrorFormatter(!introspection);
  const apollo = await startApollo({ schema, config, maxTokens: limits.maxTokens, errors, log });
  const trusted = createTrustedDocuments({ others, count: metrics.countUntrusted });
  const budget = createDocumentBudget();
  const { validate } = apollo;
  const { prepare, prepareAhead, forgetTrusted } = createPrepare({ schema, validate, trusted, limits, errors, budget });
  const replace = (manifest: ReadonlyMap<string, string>): void => {
    trusted.replace(manifest);
    forgetTrusted();
  };
  const closeManifest = path && (await openManifest({ path, replace, prepareAhead, others, log }));
  const recorder = createRecorder(usage, metrics, others === 'reported');
  const persisted = createPersistedQueries();
  const guardRateLimit = createRateLimitGuard();
  const limited = { guardRateLimit, maxRootFields, maxResponseBytes };
  const execute = createExecute({ prepare, trusted, persisted, source, ...limited });
  const chooseMediaType = createMediaTypeChooser(MEDIA_TYPES);
  const toErrorReply = createGraphqlErrorReply();

  return { handler: handle, close };

  async function close(): Promise<void> {
    if (closeManifest) await closeManifest();
    await apollo.stop();
  }

  async function handle(context: RequestContext): Promise<Reply> {
    context.route = '/graphql';
    let session: Session;
    try {
      session = await access.open(context.header('authorization'), context.client.network);
    } catch (thrown) {
      return refuse(context, thrown);
    }
    context.logged.keyId = session.keyId;
    if (session.isKeyAccepted && session.keyId) context.caller = session.keyId;
    let reply: Reply;
    try {
      reply = await answer(context, session);
    } catch (thrown) {
      reply = refuse(context, thrown);
      recorder.recordRefusal(toStoreError(thrown), context, session.keyId);
    }
    session.close();
    const windows = (await session.allowance())?.windows;
    const headers = context.method === 'POST' ? reply.headers : { ...SAFE_METHOD_HEADERS, ...reply.headers };
    return { ...reply, headers, windows };
  }

  async function answer(context: RequestContext, session: Session): Promise<Reply> {
    const { method } = context;
    requireUnambiguousHeaders(context.request);
    if (cors.isPreflight(context)) return { status: 204, headers: cors.preflightHeaders(context), body: '' };
    const isGet = method === 'GET' || method === 'HEAD';
    if (!isGet && method !== 'POST' && method !== 'QUERY') {
      throw new StoreError('method_not_allowed', '/graphql takes GET, HEAD, POST and QUERY.', {
        headers: { Allow: 'GET, HEAD, POST, QUERY' },
      });
    }
    if (hasPages && prefersHtml(context, MEDIA_TYPES)) {
      return { status: 200, headers: PAGE_HEADERS, body: await apollo.renderLandingPage(context.search) };
    }
    const needsKey = production || !introspection;
    if (needsKey || session.keyId || session.isKeyRefused) await session.requireKey();
    const { mediaType, isBatch, operations } = await read(context, isGet).catch(rethrowUnlessBanned(session));
    const startedAt = performance.now();
    const execution = await execute(operations, context, session);
    const seconds = (performance.now() - startedAt) / 1_000;
    Object.assign(context.logged, recorder.record(execution, seconds, context, session.keyId));
    const responses = execution.answers.map(({ response }) => response);
    logFailures(
      log,
      responses.flatMap(({ failures }) => failures),
      context,
    );
    if (!isBatch) return toReply(responses[0] as OperationResponse, mediaType);
    // The upstream may have refused the key only now.
    if (session.isKeyRefused && !responses.some(({ hasData }) => hasData)) await session.requireKey();
    return toBatchReply(responses, mediaType);
  }

  async function read(context: RequestContext, isGet: boolean): Promise<GraphqlRequest & { mediaType: string }> {
    const mediaType = chooseMediaType(context.header('accept'));
    return { mediaType, ...(isGet ? readGetRequest(context) : await readBodyRequest(context, config.limits)) };
  }

  function refuse(context: RequestContext, thrown: unknown): Reply {
    const error = toStoreError(thrown);
    logFailures(log, [error], context);
    return toErrorReply(context, error);
  }
}

/** Makes the function that refuses a request as a whole. */
export function createGraphqlErrorReply() {
  const chooseMediaType = createMediaTypeChooser(MEDIA_TYPES);
  return (context: RequestContext, error: StoreError): Reply => {
    let mediaType: string = MEDIA_TYPES[0];
    try {
      mediaType = chooseMediaType(context.header('accept'));
    } catch {
      // The default is for a client that accepts none of them.
    }
    return toReply(writeRefusal(error, context.requestId), mediaType);
  };
}
