import { ApolloServer, type ApolloServerOptions } from '@apollo/server';
import {
  ApolloServerPluginCacheControlDisabled,
  ApolloServerPluginLandingPageDisabled,
} from '@apollo/server/plugin/disabled';
import { ApolloServerPluginLandingPageLocalDefault } from '@apollo/server/plugin/landingPage/default';
import type { Log } from '../observability/log.js';
import type { OperationContext } from './context.js';
import { createDocumentStore } from './document-store.js';
import { EXAMPLE_HEADERS, EXAMPLE_OPERATION } from './example-operation.js';
import { createFormatError } from './format-error.js';
import type { KnownDocuments } from './known-documents.js';
import { createOperationPlugin } from './operation-plugin.js';
import { createSchema } from './schema.js';

type PersistedQueryCache = NonNullable<
  Exclude<ApolloServerOptions<OperationContext>['persistedQueries'], false | undefined>['cache']
>;

export interface GraphqlServerOptions {
  readonly introspection: boolean;
  /** Whether browsers get Apollo Sandbox. */
  readonly landingPage: boolean;
  readonly production: boolean;
  /** Tokens that a document may have. */
  readonly maxTokens: number;
  readonly documents: KnownDocuments;
  /** Where persisted queries are kept; absent: in this process. */
  readonly persistedQueries?: PersistedQueryCache | undefined;
  readonly log: Log;
}

/** Errors of one document that are told: each takes time to place in the text. */
const MAX_ERRORS = 20;

/** Makes and starts the Apollo Server: it parses, validates and executes; HTTP is the handler's. */
export async function createGraphqlServer(options: GraphqlServerOptions): Promise<ApolloServer<OperationContext>> {
  const { introspection, landingPage, production, maxTokens, documents, persistedQueries, log } = options;
  const schema = createSchema();
  const server = new ApolloServer<OperationContext>({
    schema,
    introspection,
    nodeEnv: production ? 'production' : 'development',
    hideSchemaDetailsFromClientErrors: !introspection,
    includeStacktraceInErrorResponses: false,
    stopOnTerminationSignals: false,
    parseOptions: { maxTokens },
    validationOptions: { maxErrors: MAX_ERRORS },
    formatError: createFormatError(!introspection),
    documentStore: createDocumentStore(),
    ...(persistedQueries && { persistedQueries: { cache: persistedQueries } }),
    logger: log,
    plugins: [
      // It would wrap the resolver of every field.
      ApolloServerPluginCacheControlDisabled(),
      landingPage
        ? ApolloServerPluginLandingPageLocalDefault({
            embed: true,
            includeCookies: false,
            footer: false,
            document: EXAMPLE_OPERATION,
            headers: EXAMPLE_HEADERS,
          })
        : ApolloServerPluginLandingPageDisabled(),
      createOperationPlugin({ schema, documents }),
    ],
  });
  await server.start();
  return server;
}
