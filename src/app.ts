import type { Server } from 'node:http';
import { PLANS } from './access/plans.js';
import { createStartupWait, type Backend, type Sharing } from './backend.js';
import { openStoreBackend, type StoreBackendOptions } from './store/store-backend.js';
import { ConfigError, type Config } from './config.js';
import { findKeysCommand } from './environment.js';
import { StoreError } from './errors.js';
import type { Database } from './store/database.js';
import type { FirstStart } from './store/first-start.js';
import { createGraphql, openEngine, toGraphqlErrorReply } from './graphql/handler.js';
import { createRateLimitGuard } from './graphql/rate-limit.js';
import { createCors } from './http/cors.js';
import { createFairQueue, type FairQueue } from './http/fair-queue.js';
import { drain, listen } from './http/lifecycle.js';
import { toErrorReply, type Reply } from './http/reply.js';
import { createHttpServer, type HttpServerOptions } from './http/server.js';
import { createHealth, createMetricsPage } from './observability/health.js';
import type { Log } from './observability/log.js';
import { createMetrics } from './observability/metrics.js';
import { VERSION } from './observability/package.js';
import { createMcp } from './mcp/handler.js';
import { createPages } from './pages/handler.js';
import { createRest } from './rest/handler.js';
import { createRoutes, type RoutesOptions } from './routes.js';

export interface App {
  readonly url: string;
  /** With its one-time token. Undefined if the pages are off. */
  readonly explorerUrl: string | undefined;
  /** What an empty embedded store has just been given. */
  readonly firstStart: FirstStart | undefined;
  /** False if a store has no API key yet. */
  readonly hasKeys: boolean;
  /**
   * Stops taking requests, lets those in flight finish for the grace time, and closes what was opened.
   * @param noticeMs - how long to answer as before, except `/readyz`, so that load balancers notice
   */
  close(noticeMs?: number): Promise<void>;
}

export interface AppParts {
  /** For tests, which put themselves before the database. */
  readonly decorateDatabase?: (database: Database) => Database;
  /** Ends a start that waits for what it depends on. */
  readonly signal?: AbortSignal;
  readonly lostLines?: () => number;
}

/** Puts the program together and starts it. */
export async function startApp(
  config: Config,
  log: Log,
  { decorateDatabase, signal, lostLines = () => 0 }: AppParts = {},
): Promise<App> {
  const { host, metricsPort, shutdownGraceMs, trustProxy, brownouts, keySelfRotation, explorer } = config;
  const { introspection: hasSchema, mcp: hasMcp } = config;
  const metrics = createMetrics(PLANS);
  const health = createHealth();
  const cors = createCors(config.corsOrigins, config.corsHeaders);
  const serve = (answer: HttpServerOptions['answer']) =>
    createHttpServer({ answer, log, metrics, cors, trustProxy, isDraining: health.isDraining });

  const metricsPage = createMetricsPage(metrics);
  const probes = metricsPort === undefined ? [health.findPage, metricsPage] : [health.findPage];
  const routing = { cors, takeTurn: createQueue(config), maxBodyBytes: config.limits.maxBodyBytes };
  let answer = createRoutes({ ...routing, ...refuseUntilOpen(), pages: probes });
  const server = serve((request) => answer(request));
  metrics.total('log_lines_dropped_total', 'Lines of the log that could not be written', lostLines);
  metrics.gauge('http_server_active_requests', 'HTTP requests in progress', server.inFlight);

  const closers: (() => Promise<unknown>)[] = [];
  const close = async (noticeMs = 0): Promise<void> => {
    health.setDraining();
    // The rest of the grace time is for closing what stands behind the server.
    const graceMs = shutdownGraceMs - Math.min(1_000, shutdownGraceMs / 10);
    await drain(server, graceMs, noticeMs);
    for (const closer of closers.splice(0).reverse()) await closer();
  };

  try {
    if (metricsPort !== undefined) {
      const metricsServer = serve(createRoutes({ ...routing, ...refuseUntilOpen(), apis: [], pages: [metricsPage] }));
      const metricsUrl = await listenAt(metricsServer.server, 'METRICS_PORT', host, metricsPort);
      log.info(`the metrics are at ${metricsUrl}/metrics`);
      closers.push(() => drain(metricsServer, 0, 0));
    }
    // Probes get answers while the start waits for the backend.
    const url = await listenAt(server.server, 'PORT', host, config.port);

    // Before anything waits for Redis or changes a store, because its settings may be wrong.
    const engine = await openEngine(config, log, metrics);
    closers.push(engine.close);

    const waitUntilAvailable = createStartupWait(log, config.startTimeoutMs, signal);
    const sharing = await openSharing(config.redis, { log, metrics, waitUntilAvailable });
    closers.push(() => Promise.resolve(sharing?.close()));
    const backend = await openBackend(config, { log, metrics, sharing, waitUntilAvailable, decorateDatabase });
    closers.push(() => backend.close());
    const { isStore, ownKeys, findDevelopmentKeys } = backend;
    if (!isStore) await waitUntilAvailable('UPSTREAM_URL names an animal store', backend.check);

    const guardRateLimit = createRateLimitGuard();
    const graphql = createGraphql(config, engine, { metrics, backend, guardRateLimit });
    const apis = [graphql.api];
    if (ownKeys) apis.push(createRest({ ...backend, ownKeys, guardRateLimit, keySelfRotation }, brownouts));
    if (hasMcp) apis.push(createMcp({ ...backend, cors, guardRateLimit, brownouts }));

    const pages = [graphql.findPage, ...probes];
    const keyPage = config.keyPage && isStore;
    let tokenFragment = '';
    if (explorer || keyPage) {
      const newKeyCommand = `${findKeysCommand()} create --plan free`;
      const parts = { explorer, keyPage, isStore, hasSchema, hasMcp, findDevelopmentKeys, newKeyCommand };
      const created = createPages({ ...parts, version: VERSION });
      pages.push(created.findPage);
      ({ tokenFragment } = created);
    }

    const firstStart = await backend.fill?.();
    const hasKeys = (await backend.hasKeys?.()) ?? true;
    answer = createRoutes({ ...routing, access: backend.access, apis, pages });
    health.setReady(backend.check);
    for (const { text, end } of brownouts)
      if (end > new Date()) log.info(`${text} (BROWNOUTS): lookups by id will answer as after their removal`);
    const explorerUrl = explorer ? `${url}/explorer${tokenFragment}` : undefined;
    return { url, explorerUrl, firstStart, hasKeys, close };
  } catch (error) {
    await close();
    throw error;
  }
}

/** Refuses everything but pages until the store is open. GraphQL has a form of its own for errors. */
function refuseUntilOpen(): Pick<RoutesOptions, 'access' | 'apis'> {
  const error = new StoreError('unavailable', 'The store is starting. Try again shortly.', { retryAfter: 1 });
  const open = (): never => {
    throw error;
  };
  const findRoute = () => undefined;
  const graphql = { root: '/graphql', findRoute, toErrorReply: toGraphqlErrorReply };
  return { access: { open }, apis: [graphql, { root: '', findRoute, toErrorReply }] };
}

/** A request that has waited for its turn for longer is refused: its client has usually left. In milliseconds. */
const LATE_MS = 5_000;
/** What the event loop does for a refusal, another response, each of its bytes, and each request to a store, in ms. */
const REFUSAL_MS = 0.2;
const RESPONSE_MS = 0.03;
const BYTE_MS = 4e-6;
const STORE_REQUEST_MS = 0.01;
const UPSTREAM_REQUEST_MS = 0.04;

function createQueue({ backend }: Config): FairQueue<Reply> {
  const isProxy = backend.kind === 'proxy';
  const requestMs = isProxy ? UPSTREAM_REQUEST_MS : STORE_REQUEST_MS;
  return createFairQueue({
    // The rest of its time limit is for the upstream's answer.
    lateMs: isProxy ? 0.8 * backend.timeoutMs : LATE_MS,
    weigh: (reply) => {
      if (!reply) return REFUSAL_MS;
      const { body, logged, busyMs = 0 } = reply;
      return RESPONSE_MS + body.length * BYTE_MS + (logged?.cost ?? 0) * requestMs + busyMs;
    },
  });
}

/** Connects to Redis if it is configured. @throws ConfigError if it cannot be used */
export async function openSharing(
  redis: Config['redis'],
  parts: Partial<Pick<StoreBackendOptions, 'log' | 'metrics' | 'waitUntilAvailable'>> = {},
): Promise<Sharing | undefined> {
  if (!redis) return undefined;
  const { openSharing: connect } = await import('./redis/sharing.js');
  return connect({ ...redis, ...parts });
}

async function openBackend(config: Config, parts: Omit<StoreBackendOptions, 'store' | keyof Config>): Promise<Backend> {
  const { backend } = config;
  if (backend.kind !== 'proxy') return openStoreBackend({ ...config, ...parts, store: backend });
  // Loaded only where it is used, with its HTTP client, so that other modes start faster.
  const { openProxyBackend } = await import('./proxy/backend.js');
  const { log, metrics, sharing } = parts;
  return openProxyBackend(backend, log, metrics, sharing);
}

/** Listens, or says in one line which setting stands in the way. */
async function listenAt(server: Server, variable: string, host: string, port: number): Promise<string> {
  try {
    return await listen(server, host, port);
  } catch (error) {
    throw new ConfigError(`HOST ${host} and ${variable} ${port} cannot be listened on: ${(error as Error).message}`);
  }
}
