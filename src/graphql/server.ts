import { ApolloServer, HeaderMap, type ApolloServerOptions, type ApolloServerPlugin } from '@apollo/server';
import {
  ApolloServerPluginCacheControlDisabled,
  ApolloServerPluginLandingPageDisabled,
} from '@apollo/server/plugin/disabled';
import { ApolloServerPluginLandingPageLocalDefault } from '@apollo/server/plugin/landingPage/default';
import type { DocumentNode, GraphQLFormattedError, GraphQLSchema } from 'graphql';
import { toStoreError } from '../errors.js';
import type { Log } from '../observability/log.js';
import { isUnforeseen, MAX_ERRORS, type ErrorFormatter } from './errors.js';
import { EXAMPLE_HEADERS, EXAMPLE_OPERATION } from './example-operation.js';
import type { OperationRequest } from './request.js';

type PersistedQueryCache = NonNullable<
  Exclude<ApolloServerOptions<ApolloContext>['persistedQueries'], false | undefined>['cache']
>;

export interface GraphqlServerOptions {
  readonly schema: GraphQLSchema;
  readonly introspection: boolean;
  /** Whether browsers get Apollo Sandbox. */
  readonly landingPage: boolean;
  readonly production: boolean;
  /** Tokens that a document may have. */
  readonly maxTokens: number;
  /** Where persisted queries are kept; absent: in this process. */
  readonly persistedQueries?: PersistedQueryCache | undefined;
  readonly formatError: ErrorFormatter;
  readonly log: Log;
}

/** What Apollo Server says about a document that this process has not seen. */
export type Validation =
  | { readonly isValid: true; readonly text: string; readonly document: DocumentNode }
  | {
      readonly isValid: false;
      readonly status: number;
      readonly headers: Iterable<readonly [string, string]>;
      readonly errors: readonly GraphQLFormattedError[];
    };

/** Apollo Server, as far as the program uses it. It parses, validates and finds persisted queries; it runs nothing. */
export interface GraphqlServer {
  validate(request: Pick<OperationRequest, 'query' | 'extensions'>): Promise<Validation>;
  /** Apollo Sandbox as an HTML page. */
  renderLandingPage(search: string): Promise<string>;
  stop(): Promise<void>;
}

/** What the plugin hands over. Apollo Server copies the context itself, but not what is in it. */
interface ApolloContext {
  readonly handedOver: { text?: string; document?: DocumentNode; failure?: unknown };
}

/** Without Internet access, the Sandbox page cannot load Apollo's script, and the browser goes on to the explorer. */
const OFFLINE = `addEventListener('error', ({ target }) => target.src && location.replace('explorer'), true);`;

/** Makes and starts the Apollo Server. */
export async function createGraphqlServer(options: GraphqlServerOptions): Promise<GraphqlServer> {
  const { schema, introspection, landingPage, production, maxTokens, persistedQueries, formatError, log } = options;
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
      handOver,
    ],
  });
  await server.start();

  return {
    async validate({ query, extensions }) {
      const handedOver: ApolloContext['handedOver'] = {};
      const { body, http } = await server.executeOperation({ query, extensions }, { contextValue: { handedOver } });
      const { text, document, failure } = handedOver;
      if (failure !== undefined) throw toStoreError(failure);
      if (text !== undefined && document) return { isValid: true, text, document };
      if (body.kind !== 'single') throw new Error('Apollo Server answered in parts');
      return {
        isValid: false,
        status: http.status ?? 200,
        headers: http.headers,
        // graphql-js adds one that says that there are more.
        errors: (body.singleResult.errors ?? []).slice(0, MAX_ERRORS),
      };
    },
    async renderLandingPage(search) {
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

/** Takes the validated document out of Apollo's pipeline, and ends the pipeline before it executes anything. */
const handOver: ApolloServerPlugin<ApolloContext> = {
  requestDidStart: () =>
    Promise.resolve({
      responseForOperation({ contextValue: { handedOver: result }, source, document }) {
        result.text = source;
        result.document = document;
        return Promise.resolve({ http: { headers: new HeaderMap() }, body: { kind: 'single', singleResult: {} } });
      },
      didEncounterErrors({ contextValue: { handedOver: result }, errors }) {
        const unforeseen = errors.find(isUnforeseen);
        if (unforeseen) result.failure = unforeseen.originalError ?? unforeseen;
        return Promise.resolve();
      },
    }),
};
