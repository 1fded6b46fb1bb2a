import Fastify from 'fastify';
import mercurius from 'mercurius';
import { createContext, resolvers, TYPE_DEFINITIONS } from './resolvers.mjs';
import { HOST, PORT } from './source.mjs';

/** mercurius on Fastify with its JIT, and with DataLoader, which takes less CPU here than its own loaders. */
const app = Fastify({ logger: false });
await app.register(mercurius, {
  schema: TYPE_DEFINITIONS,
  resolvers,
  context: createContext,
  jit: 1,
  allowBatchedQueries: true,
  graphiql: false,
});
await app.listen({ port: PORT, host: HOST });
