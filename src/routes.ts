import { StoreError } from './errors.js';
import { createGraphqlErrorReply } from './graphql/handler.js';
import { toErrorReply } from './http/reply.js';
import { requireUnambiguousHeaders, type Reply, type RequestContext } from './http/request-context.js';
import type { Handler } from './http/server.js';

/** Returns undefined for paths that it does not know. */
type PathHandler = (context: RequestContext) => Promise<Reply> | Reply | undefined;

const isGraphqlPath = ({ path }: RequestContext): boolean => path === '/graphql';
const isRestPath = ({ path }: RequestContext): boolean => path === '/v1' || path.startsWith('/v1/');

/** Routes each request by its path. `rest` is absent in proxy mode. */
export function createRoutes(graphql: Handler, rest: Handler | undefined, other: Handler): Handler {
  return (context) => {
    if (isGraphqlPath(context)) return graphql(context);
    return rest && isRestPath(context) ? rest(context) : other(context);
  };
}

/** Has the first handler answer that knows the path, or responds with 404. */
export function firstOf(handlers: readonly (PathHandler | undefined)[], message: string): Handler {
  return (context) => {
    requireUnambiguousHeaders(context.request);
    for (const handle of handlers) {
      const reply = handle?.(context);
      if (reply) return reply;
    }
    throw new StoreError('no_such_route', message);
  };
}

/** Creates the function that refuses every request for the same reason. */
export function createRefusal(error: StoreError): (context: RequestContext) => Reply {
  const toGraphqlReply = createGraphqlErrorReply();
  return (context) => (isGraphqlPath(context) ? toGraphqlReply(context, error) : toErrorReply(error));
}
