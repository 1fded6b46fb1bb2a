import type { Session } from '../access/session.js';
import type { Backend } from '../backend.js';
import type { Config } from '../config.js';
import { toStoreError, type StoreError } from '../errors.js';
import type { Face, Page, Route } from '../http/face.js';
import { createMediaTypeChooser, prefersHtml } from '../http/media-type.js';
import type { Reply } from '../http/reply.js';
import type { HttpRequest } from '../http/request.js';
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
import type { OperationResponse } from './types.js';

export interface GraphqlDependencies {
  readonly log: Log;
  readonly metrics: Metrics;
  readonly backend: Pick<Backend, 'source' | 'usage'>;
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

const PATH = '/graphql';

export interface Graphql {
  readonly face: Face;
  /** Finds Apollo Sandbox for a browser, if pages are on. */
  readonly findPage: (request: HttpRequest) => Page | undefined;
  readonly close: () => Promise<void>;
}

/** Puts /graphql together. @throws ConfigError if the manifest of trusted documents cannot be used */
export async function openGraphql(config: Config, { backend, log, metrics }: GraphqlDependencies): Promise<Graphql> {
  const { introspection, explorer: hasPages, production } = config;
  const { source, usage } = backend;
  const { path, others = 'allowed' } = config.trustedDocuments ?? {};

  const schema = createSchema();
  const errors = createErrorFormatter(!introspection);
  const apollo = await startApollo({
    schema,
    config,
    limits: toDocumentLimits(config.limits.maxRootFields),
    errors,
    log,
  });
  const { check } = apollo;
  const trusted = createTrustedDocuments({ others, count: metrics.countUntrusted });
  const prepare = createPrepare({ schema, check, trusted, errors, budget: createDocumentBudget() });
  const closeManifest = path && (await openManifest({ path, replace: trusted.replace, check, log }));
  const recorder = createRecorder(usage, metrics, others === 'reported');
  const persisted = createPersistedQueries();
  const guardRateLimit = createRateLimitGuard();
  const execute = createExecute({ prepare, trusted, persisted, source, guardRateLimit, limits: config.limits });
  const chooseMediaType = createMediaTypeChooser(MEDIA_TYPES);
  const needsKey = production || !introspection;

  const route: Route = {
    name: PATH,
    methods: ['GET', 'POST', 'QUERY'],
    readHeaders: READ_HEADERS,
    requiresKey: ({ keyId, isKeyRefused }) => needsKey || keyId !== undefined || isKeyRefused,
    handle,
  };
  const page: Page = {
    name: PATH,
    handle: async ({ search }) => ({
      status: 200,
      headers: PAGE_HEADERS,
      body: await apollo.renderLandingPage(search),
    }),
  };
  return {
    face: { root: PATH, findRoute: (at) => (at === PATH ? route : undefined), toErrorReply: createGraphqlErrorReply() },
    findPage: (request) => (hasPages && request.path === PATH && prefersHtml(request, MEDIA_TYPES) ? page : undefined),
    async close() {
      if (closeManifest) await closeManifest();
      await apollo.stop();
    },
  };

  async function handle(request: HttpRequest, session: Session): Promise<Reply> {
    const isRead = request.method === 'GET' || request.method === 'HEAD';
    try {
      const mediaType = chooseMediaType(request.header('accept'));
      const { isBatch, operations } = isRead ? readGetRequest(request) : readBodyRequest(request, config.limits);
      const startedAt = performance.now();
      const execution = await execute(operations, request, session);
      const seconds = (performance.now() - startedAt) / 1_000;
      const logged = recorder.record(execution, seconds, request, session.keyId);
      const responses = execution.answers.map(({ response }) => response);
      const failures = responses.flatMap((response) => response.failures);
      const rest = { logged, failures, busyMs: execution.preparingMs };
      if (!isBatch) return { ...toReply(responses[0] as OperationResponse, mediaType), ...rest };
      // The upstream may have refused the key only now.
      if (session.isKeyRefused && !responses.some(({ hasData }) => hasData)) await session.requireKey();
      return { ...toBatchReply(responses, mediaType), ...rest };
    } catch (thrown) {
      recorder.recordRefusal(toStoreError(thrown), request, session.keyId);
      throw thrown;
    }
  }
}

/** Makes the function that refuses a request as a whole. */
export function createGraphqlErrorReply(): Face['toErrorReply'] {
  const chooseMediaType = createMediaTypeChooser(MEDIA_TYPES);
  return (error: StoreError, request: HttpRequest): Reply => {
    let mediaType: string = MEDIA_TYPES[0];
    try {
      mediaType = chooseMediaType(request.header('accept'));
    } catch {
      // The default is for a client that accepts none of them.
    }
    return { ...toReply(writeRefusal(error, request.requestId), mediaType), failures: [error] };
  };
}
