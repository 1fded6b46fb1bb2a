import type { Server } from 'node:http';
import { createMemoryLedger } from './access/memory-ledger.js';
import { PLANS } from './access/plans.js';
import { ADDRESS_CAPACITY, type Backend } from './backend.js';
import { openStoreBackend } from './store/store-backend.js';
import { ConfigError, type Config } from './config.js';
import type { Database } from './store/database.js';
import type { FirstStart } from './store/first-start.js';
import { overloaded, StoreError } from './errors.js';
import { createGraphqlRefusal } from './graphql/handler.js';
import { openGraphql } from './graphql/open-graphql.js';
import { createCompression } from './http/compression.js';
import { createCors } from './http/cors.js';
import { requireSoundHeaders } from './http/sound-headers.js';
import type { RequestContext, Reply } from './http/request-context.js';
import { drain, listen } from './http/lifecycle.js';
import { createScheduler } from './http/scheduler.js';
import { toErrorReply } from './http/error-reply.js';
import { createHttpServer, type Handler, type HttpServerOptions } from './http/server.js';
import { createHealthHandler, notStarted } from './observability/health.js';
import type { Log } from './observability/log.js';
import { createMetrics, type Metrics } from './observability/metrics.js';
import { readPackage } from './observability/package.js';
import { NO_TRACING, type Tracer, type Tracing } from './observability/tracing.js';
import { openRedis } from './redis/open-redis.js';
import type { RedisLink } from './redis/redis-link.js';
import { createPages } from './pages/handler.js';
import { createRedisQueryCache } from './redis/redis-query-cache.js';
import { createRestHandler } from './rest/handler.js';
import { createStartupWait, type WaitUntilAvailable } from './startup.js';

/** The running program. */
export interface App {
  /** Where it listens, such as `http://127.0.0.1:4000`. */
  readonly url: string;
  /** The address of the explorer, with its one-time token. Undefined if the pages are off. */
  readonly explorerUrl: string | undefined;
  /** What an empty embedded store has been given just now. */
  readonly firstStart: FirstStart | undefined;
  /** False if a store has no API key yet. */
  readonly hasKeys: boolean;
  /**
   * Stops taking requests, lets those in flight finish for the grace time, and closes what was opened.
   * @param noticeMs - how long to answer as before, but for `/readyz`, so that everybody may notice
   */
  close(noticeMs?: number): Promise<void>;
}

/** What the caller may add: tests put themselves before the database. */
export interface AppParts {
  readonly decorateDatabase?: (database: Database) => Database;
  /** Ends a start that waits for what it depends on. */
  readonly signal?: AbortSignal;
  /** How the user of this process runs the keys command. */
  readonly keysCommand?: string;
}

/**
 * Puts the program together and starts it. Everything is made here, and handed to what needs it.
 * @throws StoreBusyError, or whatever keeps the backend from opening or the port from being had
 */
export async function startApp(
  config: Config,
  log: Log,
  { decorateDatabase, signal, keysCommand = 'animal-store-gateway keys' }: AppParts = {},
): Promise<App> {
  const metrics = createMetrics({ plans: PLANS, overloadRoutes: ['/graphql', '/v1'] });
  const closers: (() => Promise<unknown>)[] = [];
  let closeServer: () => Promise<unknown> = () => Promise.resolve();
  const closeAll = async (notice = 0): Promise<void> => {
    noticeMs = notice;
    await closeServer();
    for (const close of closers.splice(0).reverse()) await close();
  };
  let phase: 'starting' | 'ready' | 'shutting down' = 'starting';
  let noticeMs = 0;
  let check: Backend['check'] = () => Promise.resolve(undefined);

  try {
    const tracing = await openTracing(config, log);
    const { tracer } = tracing;
    closers.push(() => tracing.close(flushMs(config)));

    const cors = createCors(config.corsOrigins);
    const servers = {
      log,
      metrics,
      tracer,
      cors,
      trustProxy: config.trustProxy,
      logAddress: config.logAddress,
      compression: config.compression ? createCompression() : undefined,
      isDraining: () => phase === 'shutting down',
    };
    const healthOptions = { metrics, phase: () => phase, check: () => check() };
    const health = createHealthHandler({ ...healthOptions, withMetrics: config.metricsPort === undefined });
    if (config.metricsPort !== undefined) {
      const metricsHealth = createHealthHandler({ ...healthOptions, withMetrics: true });
      const metricsServer = createHttpServer({
        ...servers,
        handler: (context) => {
          const answer = context.path === '/metrics' ? metricsHealth(context) : undefined;
          if (answer) return answer;
          throw new StoreError('no_such_route', 'Only /metrics is served here.');
        },
      });
      await listenAt(metricsServer.server, 'METRICS_PORT', config.host, config.metricsPort);
      closers.push(() => drain(metricsServer, { graceMs: 0, noticeMs: 0 }));
    }
    // The server listens before the backend is open, so that probes get answers while the start waits for it.
    const refuseStarting = createRefusal(notStarted());
    let handler: Handler = (context) => health(context) ?? refuseStarting(context);
    let refuse: NonNullable<HttpServerOptions['refuse']> = () => undefined;
    const server = createHttpServer({
      ...servers,
      handler: (context) => handler(context),
      refuse: (context) => refuse(context),
    });
    metrics.watchRequests(server.inFlight);
    const url = await listenAt(server.server, 'PORT', config.host, config.port);
    closeServer = () => {
      phase = 'shutting down';
      return drain(server, { graceMs: config.shutdownGraceMs - closingMs(config), noticeMs });
    };

    const waitUntilAvailable = createStartupWait({ timeoutMs: config.startTimeoutMs, log, signal });
    const { redisUrl } = config;
    const redis =
      redisUrl === undefined ? undefined : await openRedis(redisUrl, log, metrics, tracer, waitUntilAvailable);
    closers.push(() => Promise.resolve(redis?.close()));
    const backend = await openBackend(
      config,
      log,
      metrics,
      tracer,
      redis?.limits,
      waitUntilAvailable,
      decorateDatabase,
    );
    closers.push(() => backend.close());
    const { source, access, usage } = backend;

    const graphql = await openGraphql(config, {
      ...servers,
      backend,
      persistedQueries: redis && createRedisQueryCache(redis.queries),
      createLedger: () => createMemoryLedger({ capacity: ADDRESS_CAPACITY }),
    });
    closers.push(graphql.close);
    const { maxBodyBytes } = config.limits;
    const rest = backend.isStore && createRestHandler({ source, access, usage, cors, log, maxBodyBytes });
    const pages = config.explorer
      ? createPages({
          ...readPackage(),
          isStore: backend.isStore,
          hasSchema: config.introspection,
          findDevelopmentKeys: backend.findDevelopmentKeys,
          newKeyCommand: `${keysCommand} create --plan free`,
        })
      : undefined;

    const scheduler = createScheduler({
      ...backend.loadShedding,
      onChange: (refused) =>
        refused === undefined
          ? log.warn('overloaded: requests are refused')
          : log.warn({ refused }, 'no longer overloaded'),
    });
    const refuseOverload = createRefusal(overloaded());
    const refuseAny = (context: RequestContext): Reply => {
      metrics.countOverload(isGraphqlPath(context) ? '/graphql' : '/v1');
      return refuseOverload(context);
    };

    const route: Handler = (context) => {
      if (isGraphqlPath(context)) return graphql.handler(context);
      if (rest && isRestPath(context)) return rest(context);
      requireSoundHeaders(context.request);
      const answer = health(context) ?? pages?.handle(context);
      if (answer) return answer;
      throw new StoreError(
        'no_such_route',
        `There is no such path. GraphQL is at /graphql${rest ? ', REST at /v1' : ''}.`,
      );
    };
    const firstStart = await backend.fill?.();
    refuse = (context) =>
      (isGraphqlPath(context) || (rest && isRestPath(context))) && scheduler.refuses(context)
        ? refuseAny(context)
        : undefined;
    handler = scheduler.guard(route, refuseAny);
    check = backend.check;
    const hasKeys = (await backend.hasKeys?.()) ?? true;
    phase = 'ready';
    return {
      url,
      explorerUrl: pages && `${url}/explorer${pages.tokenFragment}`,
      firstStart,
      hasKeys,
      close: closeAll,
    };
  } catch (error) {
    await closeAll();
    throw error;
  }
}

/** The part of the grace time that is kept for closing what stands behind the server, in milliseconds. */
function closingMs({ shutdownGraceMs }: Config): number {
  return Math.min(1_000, shutdownGraceMs / 10);
}

/** How long traces may take to be handed over at the end, in milliseconds. */
function flushMs({ shutdownGraceMs }: Config): number {
  return Math.max(500, Math.min(2_000, shutdownGraceMs / 2));
}

/** Loads OpenTelemetry's SDK only if tracing is configured. */
async function openTracing({ tracing }: Config, log: Log): Promise<Tracing> {
  if (!tracing) return NO_TRACING;
  const { createOtlpTracing } = await import('./observability/otlp-tracing.js');
  return createOtlpTracing(tracing, log);
}

/** Makes a function that refuses every request for the same reason. */
function createRefusal(error: StoreError): (context: RequestContext) => Reply {
  const refuseGraphql = createGraphqlRefusal(error);
  return (context) => (isGraphqlPath(context) ? refuseGraphql(context) : toErrorReply(context, error));
}

function isGraphqlPath({ path }: RequestContext): boolean {
  return path === '/graphql';
}

function isRestPath({ path }: RequestContext): boolean {
  return path === '/v1' || path.startsWith('/v1/');
}

async function openBackend(
  config: Config,
  log: Log,
  metrics: Metrics,
  tracer: Tracer,
  redis: RedisLink | undefined,
  waitUntilAvailable: WaitUntilAvailable,
  decorateDatabase: AppParts['decorateDatabase'],
): Promise<Backend> {
  const { backend, bans } = config;
  if (backend.kind !== 'proxy') {
    return openStoreBackend({
      store: backend,
      waitUntilAvailable,
      startTimeoutMs: config.startTimeoutMs,
      bans,
      log,
      metrics,
      redis,
      tracer,
      decorateDatabase,
    });
  }
  // Loaded only where it is used, with its HTTP client, for the sake of the start.
  const { openProxyBackend } = await import('./proxy/proxy-backend.js');
  const proxy = await openProxyBackend(backend, log, metrics, tracer, redis);
  try {
    await waitUntilAvailable('UPSTREAM_URL names an animal store', proxy.check);
  } catch (error) {
    await proxy.close();
    throw error;
  }
  return proxy;
}

/** Listens, or says in one line which setting stands in the way. */
async function listenAt(server: Server, variable: string, host: string, port: number): Promise<string> {
  try {
    return await listen(server, host, port);
  } catch (error) {
    throw new ConfigError(`HOST ${host} and ${variable} ${port} cannot be listened on: ${(error as Error).message}`);
  }
}
