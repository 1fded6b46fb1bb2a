import { ApolloServer } from '@apollo/server';
import { startStandaloneServer } from '@apollo/server/standalone';
import { TYPE_DEFINITIONS } from './schema.mjs';
import { HOST, openSource, PORT } from './source.mjs';

/** Apollo Server as its documentation starts it: standalone, resolvers that ask for one thing each, no DataLoader. */
const source = openSource();

const server = new ApolloServer({
  typeDefs: TYPE_DEFINITIONS,
  resolvers: {
    Query: {
      pets: (_, { limit, status }, { authorization }) => source.list(limit, status, authorization),
      pet: (_, { id }, { authorization }) => source.find(id, authorization),
    },
    Mutation: { addPet: (_, { input }, { authorization }) => source.add(input, authorization) },
  },
});

await startStandaloneServer(server, {
  listen: { port: PORT, host: HOST },
  context: async ({ req }) => ({ authorization: req.headers.authorization }),
});
