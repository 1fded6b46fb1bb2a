import type { RateLimitGuard, Session } from '../access/session.js';
import type { Backend } from '../backend.js';
import type { Config } from '../config.js';
import { toStoreError, type StoreError } from '../errors.js';
import type { Api, Page, Route } from '../http/route.js';
import { createMediaTypeChooser, prefersHtml } from '../http/media-type.js';
import { PAGE_HEADERS, toErrorPage } from '../http/page.js';
import type { LoggedFields, Reply } from '../http/reply.js';
import type { HttpRequest } from '../http/request.js';
import type { Log } from '../observability/log.js';
import type { Metrics } from '../observability/metrics.js';
import { startApollo } from './apollo.js';
import { openDocuments } from './documents.js';
import { createExecute } from './execute.js';
import { createPrepare } from './prepare.js';
import { createRecorder } from './record.js';
import { readBodyRequest, readGetRequest } from './request.js';
import { createSchema } from './resolvers.js';
import { writeRefusal } from './run.js';
import type { OperationResponse } from './types.js';

interface Dependencies {
  readonly metrics: Metrics;
  readonly backend: Pick<Backend, 'source' | 'usage'>;
  readonly guardRateLimit: RateLimitGuard;
}

/** https://http-spec.graphql.org/September2026/#sec-Media-Types */
const MEDIA_TYPES = ['application/json; charset=utf-8', 'application/graphql-response+json; charset=utf-8'] as const;
const chooseMediaType = createMediaTypeChooser(MEDIA_TYPES);
const LANDING_PAGE_HEADERS = {
  ...PAGE_HEADERS,
  'Cross-Origin-Opener-Policy': 'same-origin-allow-popups',
  'Referrer-Policy': 'strict-origin-when-cross-origin',
  'Cache-Control': 'no-store',
  // In addition to the policy in the page, which names Apollo's CDN and the nonce of its own scripts.
  'Content-Security-Policy': "frame-ancestors 'none'; form-action 'none'; object-src 'none'",
};

const PATH = '/graphql';

type Engine = Awaited<ReturnType<typeof openEngine>>;

/** Opens what needs no backend. @throws ConfigError if the manifest of trusted documents cannot be used */
export async function openEngine(config: Config, log: Log, { countUntrusted: count }: Metrics) {
  const schema = createSchema();
  const apollo = await startApollo(schema, config, log);
  const documents = await openDocuments({ ...config.trustedDocuments, count, check: apollo.check, log });
  const close = async (): Promise<void> => {
    await documents.close();
    await apollo.stop();
  };
  return { schema, apollo, documents, close };
}

export function createGraphql(
  config: Config,
  { schema, apollo, documents }: Engine,
  { backend, metrics, guardRateLimit }: Dependencies,
) {
  const { introspection, explorer, production, limits, brownouts } = config;
  const prepare = createPrepare(schema, apollo, documents, brownouts);
  const execute = createExecute(prepare, backend.source, guardRateLimit, limits, brownouts);
  const recorder = createRecorder(backend.usage, metrics);

  const route: Route = {
    name: PATH,
    methods: ['GET', 'POST', 'QUERY'],
    // https://www.rfc-editor.org/rfc/rfc10008#name-the-accept-query-header-fie
    readHeaders: { 'Accept-Query': 'application/json' },
    requiresKey: ({ keyId, isKeyRefused }) => production || !introspection || keyId !== undefined || isKeyRefused,
    handle,
  };
  const page: Page = {
    name: PATH,
    isLimited: true,
    handle: async ({ search }) => ({
      status: 200,
      headers: LANDING_PAGE_HEADERS,
      body: await apollo.renderLandingPage(search),
    }),
  };
  const api: Api = {
    root: PATH,
    findRoute: (path) => (path === PATH ? route : undefined),
    toErrorReply: toGraphqlErrorReply,
  };
  return {
    api,
    /** Finds Apollo Sandbox for a browser, if pages are on. A browser sends no key. */
    findPage: (request: HttpRequest): Page | undefined =>
      explorer &&
      request.path === PATH &&
      request.header('authorization') === undefined &&
      prefersHtml(request, MEDIA_TYPES)
        ? page
        : undefined,
  };

  async function handle(http: HttpRequest, session: Session): Promise<Reply> {
    const isRead = http.method === 'GET' || http.method === 'HEAD';
    try {
      const mediaType = chooseMediaType(http.header('accept'));
      const sent = isRead ? readGetRequest(http) : readBodyRequest(http, limits);
      const requests = sent instanceof Array ? sent : [sent];
      const startedAt = performance.now();
      const { answers, preparingMs: busyMs } = await execute(requests, http, session);
      const seconds = (performance.now() - startedAt) / 1_000;
      const logged = recorder.record(answers, seconds, http, session.keyId);
      const responses = answers.map(({ response }) => response);
      if (requests !== sent) return toReply(responses[0] as OperationResponse, mediaType, logged, busyMs);
      // The upstream may have refused the key only now.
      if (session.isKeyRefused && !responses.some(({ hasData }) => hasData)) await session.requireKey();
      return { ...toBatchReply(responses, mediaType), logged, busyMs };
    } catch (thrown) {
      recorder.recordRefusal(toStoreError(thrown), http, session.keyId);
      throw thrown;
    }
  }
}

/** Refuses a request as a whole. */
export function toGraphqlErrorReply(error: StoreError, request: HttpRequest): Reply {
  if (prefersHtml(request, MEDIA_TYPES)) return toErrorPage(request, error);
  let mediaType: string = MEDIA_TYPES[0];
  try {
    mediaType = chooseMediaType(request.header('accept'));
  } catch {
    // The default is for a client that accepts none of them.
  }
  return toReply(writeRefusal(error, request.requestId), mediaType);
}

function toReply(response: OperationResponse, mediaType: string, logged?: LoggedFields, busyMs?: number): Reply {
  const { body, failures, headers: further } = response;
  const headers: Record<string, string> = { 'Content-Type': mediaType, Vary: 'Accept' };
  for (const name in further) headers[name] = further[name] as string;
  return { status: toStatus(response, mediaType), headers, body, failures, logged, busyMs };
}

/** A batch gets 200 if any operation ran, otherwise the status that they share with their headers, or 400. */
function toBatchReply(responses: readonly OperationResponse[], mediaType: string): Reply {
  const longestWait = Math.max(...responses.map(({ headers }) => Number(headers['Retry-After'] ?? 0)));
  const [status = 400, ...others] = new Set(responses.map((response) => toStatus(response, mediaType)));
  const hasData = responses.some((response) => response.hasData);
  const isShared = !hasData && others.length === 0;
  const headers = {
    'Content-Type': mediaType,
    Vary: 'Accept',
    ...(isShared && responses[0]?.headers),
    ...(longestWait > 0 && { 'Retry-After': String(longestWait) }),
  };
  const body = `[${responses.map((response) => response.body).join()}]`;
  const failures = responses.flatMap((response) => response.failures);
  return { status: hasData ? 200 : isShared ? status : 400, headers, body, failures };
}

/**
 * In the media type that defines it, data with errors is a 294, and every response without data an error; a persisted
 * query that is not found is a 200 in Apollo's protocol.
 * https://http-spec.graphql.org/September2026/#sec-Status-Codes
 */
function toStatus({ status, hasData, failures }: OperationResponse, mediaType: string): number {
  if (status !== 200 || mediaType === MEDIA_TYPES[0]) return status;
  return !hasData ? 422 : failures.length > 0 ? 294 : 200;
}
