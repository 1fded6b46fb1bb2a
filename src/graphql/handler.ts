import type { Session } from '../access/session.js';
import type { Backend } from '../backend.js';
import type { Config } from '../config.js';
import { toStoreError, type StoreError } from '../errors.js';
import { createMediaTypeChooser, prefersHtml } from '../http/media-type.js';
import type { Reply } from '../http/reply.js';
import type { HttpRequest } from '../http/request.js';
import type { Log } from '../observability/log.js';
import type { Metrics } from '../observability/metrics.js';
import type { Face, Page } from '../http/face.js';
import { createDocumentBudget, toDocumentLimits, type LocalLedger } from './document-limits.js';
import { createErrorFormatter, Refusal } from './errors.js';
import { createExecute } from './execute.js';
import { createOperationRecorder } from './operation-recorder.js';
import { createPrepare } from './prepare.js';
import { createPreparedDocuments } from './prepared-documents.js';
import { createRateLimitGuard } from './rate-limit-guard.js';
import { readBodyRequest, readGetRequest } from './request.js';
import { createSchema } from './resolvers.js';
import { toBatchReply, toReply, writeRefusal, type OperationResponse } from './response.js';
import { createGraphqlServer } from './server.js';
import { createTrustedDocuments, openManifest } from './trusted-documents.js';

/** What GraphQL shares with the other parts of the program. */
export interface GraphqlDependencies {
  readonly log: Log;
  readonly metrics: Metrics;
  readonly backend: Pick<Backend, 'source' | 'usage'>;
  /** Makes what counts, in this instance, how much each caller has the program do. */
  readonly createLedger: () => LocalLedger;
}

/** The media types of https://http-spec.graphql.org/September2026/#sec-Media-Types, the default first. */
const MEDIA_TYPES = ['application/json; charset=utf-8', 'application/graphql-response+json; charset=utf-8'] as const;
/** https://www.rfc-editor.org/rfc/rfc10008#name-the-accept-query-header-fie */
const READ_HEADERS = { 'Accept-Query': 'application/json' };
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

export interface Graphql {
  readonly face: Face;
  /** Finds Apollo Sandbox for a browser, if pages are on. */
  readonly findPage: (request: HttpRequest) => Page | undefined;
  readonly close: () => Promise<void>;
}

/**
 * Puts /graphql together.
 * @throws ConfigError when the manifest of trusted documents cannot be used
 */
export async function openGraphql(config: Config, dependencies: GraphqlDependencies): Promise<Graphql> {
  const { backend, createLedger, log, metrics } = dependencies;
  const { introspection, explorer: hasPages, production, limits } = config;
  const { source, usage } = backend;
  const schema = createSchema();
  const documents = createPreparedDocuments();
  const documentLimits = toDocumentLimits(limits.maxRootFields);
  const formatError = createErrorFormatter(schema, !introspection);
  const server = await createGraphqlServer({
    schema,
    introspection,
    landingPage: hasPages,
    production,
    maxTokens: documentLimits.maxTokens,
    formatError,
    log,
  });
  const { path, others = 'allowed' } = config.trustedDocuments ?? {};
  const trusted = createTrustedDocuments({ documents, others, count: metrics.countUntrusted });
  const budget = createDocumentBudget(createLedger);
  const { prepare, prepareAhead } = createPrepare({
    server,
    schema,
    documents,
    trusted,
    documentLimits,
    formatError,
    budget,
  });
  const closeManifest = path === undefined ? undefined : await openManifest({ path, trusted, prepareAhead, log });
  const recorder = createOperationRecorder({ usage, metrics, marksUntrusted: others === 'reported' });
  const { maxResponseBytes } = limits;
  const guardRateLimit = createRateLimitGuard();
  const execute = createExecute({
    prepare,
    documents,
    documentLimits,
    source,
    guardRateLimit,
    recorder,
    maxResponseBytes,
  });
  const chooseMediaType = createMediaTypeChooser(MEDIA_TYPES);
  const needsKey = production || !introspection;

  const route = {
    name: '/graphql',
    methods: ['GET', 'POST', 'QUERY'],
    readHeaders: READ_HEADERS,
    requiresKey: ({ keyId, isKeyRefused }: Session) => needsKey || keyId !== undefined || isKeyRefused,
    handle,
  };
  const page: Page = { name: '/graphql', handle: renderPage };
  return {
    face: {
      root: '/graphql',
      findRoute: (at) => (at === '/graphql' ? route : undefined),
      toErrorReply: createGraphqlErrorReply(),
    },
    findPage: (request) =>
      hasPages && request.path === '/graphql' && prefersHtml(request, MEDIA_TYPES) ? page : undefined,
    close,
  };

  async function close(): Promise<void> {
    await closeManifest?.();
    await server.stop();
  }

  async function renderPage({ search }: HttpRequest): Promise<Reply> {
    return { status: 200, headers: PAGE_HEADERS, body: await server.renderLandingPage(search) };
  }

  async function handle(request: HttpRequest, session: Session): Promise<Reply> {
    const isRead = request.method === 'GET' || request.method === 'HEAD';
    try {
      const mediaType = chooseMediaType(request.header('accept'));
      const { isBatch, operations } = isRead ? readGetRequest(request) : readBodyRequest(request, limits);
      const { responses, logged, failures } = await execute(operations, request, session);
      // The upstream may have refused the key only now.
      if (isBatch && session.isKeyRefused && !responses.some(({ hasData }) => hasData)) await session.requireKey();
      const reply = isBatch
        ? toBatchReply(responses, mediaType)
        : toReply(responses[0] as OperationResponse, mediaType);
      return { ...reply, logged, failures };
    } catch (thrown) {
      recorder.recordRefusal(toStoreError(thrown), request, session.keyId);
      throw thrown;
    }
  }
}

/** Makes the function that refuses a request as a whole. */
export function createGraphqlErrorReply() {
  const chooseMediaType = createMediaTypeChooser(MEDIA_TYPES);
  return (error: StoreError, request: HttpRequest): Reply => {
    let mediaType: string = MEDIA_TYPES[0];
    try {
      mediaType = chooseMediaType(request.header('accept'));
    } catch {
      // The default is for a client that accepts none of them.
    }
    const response = writeRefusal(Refusal.of(error), request.requestId);
    return { ...toReply(response, mediaType), failures: [error] };
  };
}
