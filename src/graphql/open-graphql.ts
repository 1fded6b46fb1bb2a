import type { Backend } from '../backend.js';
import type { Config } from '../config.js';
import type { Handler } from '../http/server.js';
import { createDocumentBudget, type LocalLedger } from './document-budget.js';
import { toDocumentLimits } from './document-limits.js';
import { createErrorFormatter } from './errors.js';
import { createGraphqlHandler, type GraphqlHandlerOptions } from './handler.js';
import { createPrepare } from './prepare.js';
import { createPreparedDocuments } from './prepared-documents.js';
import { createRateLimitGuard } from './rate-limit-guard.js';
import { createSchema } from './schema.js';
import { createGraphqlServer, type GraphqlServerOptions } from './server.js';
import { createTrustedDocuments } from './trusted-documents.js';
import { openManifest } from './trusted-manifest.js';

/** What GraphQL shares with the other parts of the program. */
export interface GraphqlDependencies extends Pick<GraphqlHandlerOptions, 'cors' | 'log' | 'metrics' | 'tracer'> {
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
  const handler = createGraphqlHandler({
    prepare,
    documents,
    documentLimits,
    source,
    access,
    usage,
    guardRateLimit: createRateLimitGuard(),
    cors,
    log,
    metrics,
    tracer,
    introspection,
    marksUntrusted: others === 'reported',
    renderLandingPage: hasPages ? (search) => server.renderLandingPage(search) : undefined,
    maxBodyBytes: limits.maxBodyBytes,
    maxBatch: limits.maxBatch,
    maxResponseBytes: limits.maxResponseBytes,
  });
  return {
    handler,
    close: async () => {
      await closeManifest?.();
      await server.stop();
    },
  };
}
