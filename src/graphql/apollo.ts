import { ApolloServer, HeaderMap, type ApolloServerPlugin } from '@apollo/server';
import {
  ApolloServerPluginCacheControlDisabled,
  ApolloServerPluginLandingPageDisabled,
} from '@apollo/server/plugin/disabled';
import { ApolloServerPluginLandingPageLocalDefault } from '@apollo/server/plugin/landingPage/default';
import type { DocumentNode, GraphQLSchema } from 'graphql';
import type { Config } from '../config.js';
import type { Log } from '../observability/log.js';
import { MAX_ERRORS, toDocumentErrors } from './errors.js';
import { createDocumentLimits } from './limits.js';

type ApolloConfig = Pick<Config, 'introspection' | 'explorer' | 'production' | 'limits'>;

export type Apollo = Awaited<ReturnType<typeof startApollo>>;

/** What Sandbox opens with, so that a visitor sees where the key goes and what to run. */
const EXAMPLE_OPERATION = `# Add your API key to the Authorization header in the
# Headers pane below, after "Bearer ", then run this.
query ListPets {
  pets(limit: 5, status: AVAILABLE) {
    id
    name
  }
}
`;

/** Starts the Apollo Server, which parses and validates documents and executes nothing. */
export async function startApollo(schema: GraphQLSchema, config: ApolloConfig, log: Log) {
  const { introspection, explorer, production } = config;
  /** Whether messages may not name what the client did not write. */
  const hidesSchema = !introspection;
  const limits = createDocumentLimits(config.limits.maxRootFields);
  const server = new ApolloServer({
    schema,
    introspection,
    nodeEnv: production ? 'production' : 'development',
    hideSchemaDetailsFromClientErrors: hidesSchema,
    includeStacktraceInErrorResponses: false,
    stopOnTerminationSignals: false,
    parseOptions: { maxTokens: limits.maxTokens },
    validationRules: [limits.rule],
    validationOptions: { maxErrors: MAX_ERRORS },
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
      answerWithDocument,
    ],
  });
  await server.start();

  return {
    hidesSchema,
    /** Parses and validates a document. @throws RequestErrors, StoreError */
    check: async (query: string): Promise<DocumentNode> => {
      limits.requireParsable(query);
      const { body } = await server.executeOperation<{ readonly document: DocumentNode }>({ query });
      if (body.kind !== 'single') throw new Error('Apollo Server answered in parts');
      const { data, errors = [] } = body.singleResult;
      if (data) return data.document;
      throw toDocumentErrors(errors, hidesSchema);
    },
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

/** Answers with the valid document itself, so that Apollo Server executes nothing. */
const answerWithDocument: ApolloServerPlugin = {
  requestDidStart: async () => ({
    responseForOperation: async ({ document }) => ({
      http: { headers: new HeaderMap() },
      body: { kind: 'single', singleResult: { data: { document } } },
    }),
  }),
};
