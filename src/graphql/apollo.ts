import { ApolloServer, HeaderMap, type ApolloServerPlugin } from '@apollo/server';
import {
  ApolloServerPluginCacheControlDisabled,
  ApolloServerPluginLandingPageDisabled,
} from '@apollo/server/plugin/disabled';
import { ApolloServerPluginLandingPageLocalDefault } from '@apollo/server/plugin/landingPage/default';
import type { DocumentNode, GraphQLSchema } from 'graphql';
import type { Config } from '../config.js';
import type { Log } from '../observability/log.js';
import { MAX_ERRORS, type ErrorFormatter } from './errors.js';
import { requireSmallDocument, type DocumentLimits } from './limits.js';

export interface ApolloOptions {
  readonly schema: GraphQLSchema;
  readonly config: Pick<Config, 'introspection' | 'explorer' | 'production'>;
  readonly limits: DocumentLimits;
  readonly errors: ErrorFormatter;
  readonly log: Log;
}

interface ApolloContext {
  /** Receives the valid document. */
  readonly found: { document?: DocumentNode };
}

/** What Sandbox opens with, so that a visitor sees where the key goes and what to run. */
const EXAMPLE_OPERATION = `# Add your API key to the Authorization header in the
# Headers pane below, after "Bearer ", then run this.
query ListPets {
  pets(limit: 5, status: AVAILABLE) {
    id
    name
    categoryId
    status
  }
}
`;

/** Creates and starts the Apollo Server. It parses and validates documents; it executes nothing. */
export async function startApollo({ schema, config, limits, errors, log }: ApolloOptions) {
  const { introspection, explorer, production } = config;
  const server = new ApolloServer<ApolloContext>({
    schema,
    introspection,
    nodeEnv: production ? 'production' : 'development',
    hideSchemaDetailsFromClientErrors: !introspection,
    includeStacktraceInErrorResponses: false,
    stopOnTerminationSignals: false,
    parseOptions: { maxTokens: limits.maxTokens },
    validationOptions: { maxErrors: MAX_ERRORS },
    // Prepared operations and persisted queries are kept by this program.
    documentStore: null,
    persistedQueries: false,
    logger: log,
    plugins: [
      // It would wrap the resolver of every field.
      ApolloServerPluginCacheControlDisabled(),
      explorer
        ? ApolloServerPluginLandingPageLocalDefault({
            embed: true,
            includeCookies: false,
            footer: false,
            document: EXAMPLE_OPERATION,
            // As long as nothing follows the scheme, no key is sent, and the schema loads without one.
            headers: { Authorization: 'Bearer ' },
          })
        : ApolloServerPluginLandingPageDisabled(),
      takeDocument,
    ],
  });
  await server.start();

  return {
    /** Parses and validates a document. @throws RequestErrors, StoreError */
    check: async (query: string): Promise<DocumentNode> => {
      requireSmallDocument(query, limits);
      const found: ApolloContext['found'] = {};
      const { body } = await server.executeOperation({ query }, { contextValue: { found } });
      if (found.document) return found.document;
      if (body.kind !== 'single') throw new Error('Apollo Server answered in parts');
      throw errors.document(body.singleResult.errors ?? []);
    },
    /** Apollo Sandbox as an HTML page. */
    async renderLandingPage(search: string): Promise<string> {
      const headers = new HeaderMap([['accept', 'text/html']]);
      const { body } = await server.executeHTTPGraphQLRequest({
        httpGraphQLRequest: { method: 'GET', headers, search, body: undefined },
        context: () => Promise.reject(new Error('a landing page needs no context')),
      });
      if (body.kind !== 'complete') throw new Error('the landing page came in parts');
      return body.string;
    },
    stop: () => server.stop(),
  };
}

/** Takes the valid document, and ends Apollo's pipeline before it executes anything. */
const takeDocument: ApolloServerPlugin<ApolloContext> = {
  requestDidStart: () =>
    Promise.resolve({
      responseForOperation({ contextValue: { found }, document }) {
        found.document = document;
        return Promise.resolve({ http: { headers: new HeaderMap() }, body: { kind: 'single', singleResult: {} } });
      },
    }),
};
