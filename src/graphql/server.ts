import { ApolloServer, HeaderMap, type ApolloServerPlugin } from '@apollo/server';
import {
  ApolloServerPluginCacheControlDisabled,
  ApolloServerPluginLandingPageDisabled,
} from '@apollo/server/plugin/disabled';
import { ApolloServerPluginLandingPageLocalDefault } from '@apollo/server/plugin/landingPage/default';
import type { DocumentNode, GraphQLSchema } from 'graphql';
import { toStoreError } from '../errors.js';
import type { Log } from '../observability/log.js';
import { findDocumentStatus, isUnforeseen, MAX_ERRORS, Refusal, type ErrorFormatter } from './errors.js';
import type { OperationRequest } from './request.js';

export interface GraphqlServerOptions {
  readonly schema: GraphQLSchema;
  readonly introspection: boolean;
  /** Whether browsers get Apollo Sandbox. */
  readonly landingPage: boolean;
  readonly production: boolean;
  readonly maxTokens: number;
  readonly formatError: ErrorFormatter;
  readonly log: Log;
}

/** What the plugin captures. Apollo Server copies the context itself, but not what is in it. */
interface ApolloContext {
  readonly captured: { text?: string; document?: DocumentNode; failure?: unknown };
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

/** Without Internet access, the Sandbox page cannot load Apollo's script, and the browser goes on to the explorer. */
const OFFLINE = `addEventListener('error', ({ target }) => target.src && location.replace('explorer'), true);`;

/** Makes and starts the Apollo Server. It parses, validates and finds persisted queries; it runs nothing. */
export async function createGraphqlServer(options: GraphqlServerOptions) {
  const { schema, introspection, landingPage, production, maxTokens, formatError, log } = options;
  const server = new ApolloServer<ApolloContext>({
    schema,
    introspection,
    nodeEnv: production ? 'production' : 'development',
    hideSchemaDetailsFromClientErrors: !introspection,
    includeStacktraceInErrorResponses: false,
    stopOnTerminationSignals: false,
    parseOptions: { maxTokens },
    validationOptions: { maxErrors: MAX_ERRORS },
    formatError,
    // Documents are kept as compiled operations.
    documentStore: null,
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
            // As long as nothing follows the scheme, no key is sent, and the schema loads without one.
            headers: { Authorization: 'Bearer ' },
          })
        : ApolloServerPluginLandingPageDisabled(),
      captureDocument,
    ],
  });
  await server.start();

  return {
    /** Has a document that this process has not seen parsed and validated. */
    async validate({ query, extensions }: Partial<OperationRequest>) {
      const captured: ApolloContext['captured'] = {};
      const { body, http } = await server.executeOperation({ query, extensions }, { contextValue: { captured } });
      const { text, document, failure } = captured;
      if (failure !== undefined) throw toStoreError(failure);
      if (text !== undefined && document) return { text, document };
      if (body.kind !== 'single') throw new Error('Apollo Server answered in parts');
      // graphql-js adds one that says that there are more.
      const errors = (body.singleResult.errors ?? []).slice(0, MAX_ERRORS);
      return new Refusal(findDocumentStatus(errors) ?? http.status ?? 200, errors);
    },
    /** Apollo Sandbox as an HTML page. */
    async renderLandingPage(search: string): Promise<string> {
      const { body } = await server.executeHTTPGraphQLRequest({
        httpGraphQLRequest: {
          method: 'GET',
          headers: new HeaderMap([['accept', 'text/html']]),
          search,
          body: undefined,
        },
        context: () => Promise.reject(new Error('a landing page needs no context')),
      });
      if (body.kind !== 'complete') throw new Error('the landing page came in parts');
      const nonce = /nonce="[^"]+"/.exec(body.string)?.[0] ?? '';
      return body.string.replace('<head>', `<head><script ${nonce}>${OFFLINE}</script>`);
    },
    stop: () => server.stop(),
  };
}

export type GraphqlServer = Awaited<ReturnType<typeof createGraphqlServer>>;

/** Takes the validated document out of Apollo's pipeline, and ends the pipeline before it executes anything. */
const captureDocument: ApolloServerPlugin<ApolloContext> = {
  requestDidStart: () =>
    Promise.resolve({
      responseForOperation({ contextValue: { captured }, source, document }) {
        captured.text = source;
        captured.document = document;
        return Promise.resolve({ http: { headers: new HeaderMap() }, body: { kind: 'single', singleResult: {} } });
      },
      didEncounterErrors({ contextValue: { captured }, errors }) {
        const unforeseen = errors.find(isUnforeseen);
        if (unforeseen) captured.failure = unforeseen.originalError ?? unforeseen;
        return Promise.resolve();
      },
    }),
};
