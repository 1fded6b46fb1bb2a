import { createServer } from 'node:http';
import DataLoader from 'dataloader';
import { createSchema, createYoga } from 'graphql-yoga';
import { TYPE_DEFINITIONS } from './schema.mjs';
import { HOST, openSource, PORT } from './source.mjs';

/** graphql-yoga over node:http; its cache of parsed and validated documents is on by default. */
const source = openSource();

const yoga = createYoga({
  schema: createSchema({
    typeDefs: TYPE_DEFINITIONS,
    resolvers: {
      Query: {
        pets: (_, { limit, status }, { authorization }) => source.list(limit, status, authorization),
        pet: (_, { id }, { pets }) => pets.load(id),
      },
      Mutation: { addPet: (_, { input }, { authorization }) => source.add(input, authorization) },
    },
  }),
  context: ({ request }) => {
    const authorization = request.headers.get('authorization') ?? undefined;
    return { authorization, pets: new DataLoader((ids) => source.findMany(ids, authorization)) };
  },
  logging: false,
  graphiql: false,
  landingPage: false,
});

createServer(yoga).listen(PORT, HOST);
