import { ApolloServer } from '@apollo/server';
import {
  ApolloServerPluginCacheControlDisabled,
  ApolloServerPluginLandingPageDisabled,
} from '@apollo/server/plugin/disabled';
import { ApolloServerPluginLandingPageLocalDefault } from '@apollo/server/plugin/landingPage/default';
import { toStoreError } from '../errors.js';
import { logFailure } from '../http/server.js';
import type { Log } from '../observability/log.js';
import { createAdmissionPlugin } from './admission-plugin.js';
import type { OperationContext } from './context.js';
import { EXAMPLE_HEADERS, EXAMPLE_OPERATION } from './example-operation.js';
import { findStoreError, formatError, isUnforeseen } from './format-error.js';
import { MAX_TOKENS } from './operation.js';
import { createSchema } from './schema.js';

export interface GraphqlServerOptions {
  readonly introspection: boolean;
  /** Whether browsers get Apollo Sandbox. */
  readonly landingPage: boolean;
  readonly production: boolean;
  readonly maxRootFields: number;
  readonly log: Log;
}

/** Makes and starts the Apollo Server: it parses, validates and executes; HTTP is the handler's. */
export async function createGraphqlServer(options: GraphqlServerOptions): Promise<ApolloServer<OperationContext>> {
  const { introspection, landingPage, production, maxRootFields, log } = options;
  const schema = createSchema();
  const server = new ApolloServer<OperationContext>({
    schema,
    introspection,
    nodeEnv: production ? 'production' : 'development',
    hideSchemaDetailsFromClientErrors: !introspection,
    includeStacktraceInErrorResponses: false,
    stopOnTerminationSignals: false,
    parseOptions: { maxTokens: MAX_TOKENS },
    formatError,
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
      createAdmissionPlugin({ schema, maxRootFields }),
      {
        requestDidStart: async ({ contextValue: { call, report } }) => ({
          didEncounterErrors: async ({ errors }) => {
            for (const error of errors) {
              const storeError = isUnforeseen(error)
                ? toStoreError(error.originalError ?? error)
                : findStoreError(error);
              if (!storeError) continue;
              report.failures.push(storeError);
              // What fails because the client has gone away is no failure of ours.
              if (!call.signal.aborted) logFailure(log, storeError, call.requestId);
            }
          },
        }),
      },
    ],
  });
  await server.start();
  return server;
}
