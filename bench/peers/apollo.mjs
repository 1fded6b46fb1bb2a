import { ApolloServer } from '@apollo/server';
import { startStandaloneServer } from '@apollo/server/standalone';
import { createContext, resolvers, TYPE_DEFINITIONS } from './resolvers.mjs';
import { HOST, PORT } from './source.mjs';

/** Apollo Server as its documentation starts it, with DataLoader. */
const server = new ApolloServer({
  typeDefs: TYPE_DEFINITIONS,
  resolvers,
  allowBatchedHttpRequests: true,
  // urql sends its queries as plain GETs.
  csrfPrevention: false,
});
await startStandaloneServer(server, {
  listen: { port: PORT, host: HOST },
  context: async ({ req }) => createContext(req),
});
