import type { Backend } from '../backend.js';
import type { Config } from '../config.js';
import type { Cors } from '../http/cors.js';
import type { Handler } from '../http/server.js';
import type { Log } from '../observability/log.js';
import type { Metrics } from '../observability/metrics.js';
import type { Tracer } from '../observability/tracing.js';
import { createDocumentBudget, type LocalLedger } from './document-budget.js';
import { toDocumentLimits } from './document-limits.js';
import { createErrorFormatter } from './errors.js';
import { createExecute } from './execute.js';
import { createGraphqlHandler } from './handler.js';
import { createOperationRecorder } from './operation-recorder.js';
import { createPrepare } from './prepare.js';
import { createPreparedDocuments } from './prepared-documents.js';
import { createRateLimitGuard } from './rate-limit-guard.js';
import { createSchema } from './schema.js';
import { createGraphqlServer, type GraphqlServerOptions } from './server.js';
import { createTrustedDocuments, openManifest } from './trusted-documents.js';

/** What GraphQL shares with the other parts of the program. */
export interface GraphqlDependencies {
  readonly cors: Cors;
  readonly log: Log;
  readonly metrics: Metrics;
  readonly tracer: Tracer;
  readonly backend: Pick<Backend, 'source' | 'access' | 'usage'>;
  /** Where persisted queries are kept for all instances; undefined to keep them in this one. */
  readonly persistedQueries: GraphqlServerOptions['persistedQueries'];
  /** Makes what counts, in this instance, how much each caller has the program do. */
  readonly createLedger: () => LocalLedger;
}

/**
 * Puts /graphql together.
 * @throws ConfigError when the manifest of trusted documents cannot be used
 */
export async function openGraphql(
  config: Config,
  { backend, persistedQueries, createLedger, cors, log, metrics, tracer }: GraphqlDependencies,
): Promise<{ handler: Handler; close: () => Promise<void> }> {
  const { introspection, explorer: hasPages, production, limits } = config;
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
    persistedQueries,
    formatError,
    log,
  });
  const { path, others = 'allowed' } = config.trustedDocuments ?? {};
  const trusted = createTrustedDocuments({ documents, others, count: metrics.countUntrusted });
  const { prepare, prepareAhead } = createPrepare({
    server,
    schema,
    documents,
    trusted,
    documentLimits,
    formatError,
    budget: createDocumentBudget(createLedger()),
    registrations: createLedger(),
  });
  const closeManifest = path === undefined ? undefined : await openManifest({ path, trusted, prepareAhead, log });
  const { source, access, usage } = backend;
  const recorder = createOperationRecorder({ usage, log, metrics, marksUntrusted: others === 'reported' });
  const execute = createExecute({
    prepare,
    documents,
    documentLimits,
    source,
    guardRateLimit: createRateLimitGuard(),
    recorder,
    tracer,
    maxResponseBytes: limits.maxResponseBytes,
  });
  const handler = createGraphqlHandler({
    execute,
    recorder,
    access,
    cors,
    log,
    openIntrospection: introspection && !production,
    renderLandingPage: hasPages ? (search) => server.renderLandingPage(search) : undefined,
    limits,
  });
  return {
    handler,
    close: async () => {
      await closeManifest?.();
      await server.stop();
    },
  };
}
