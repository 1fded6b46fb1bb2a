import DataLoader from 'dataloader';
import Fastify from 'fastify';
import mercurius from 'mercurius';
import { TYPE_DEFINITIONS } from './schema.mjs';
import { HOST, openSource, PORT } from './source.mjs';

/** mercurius on Fastify with its JIT. MERCURIUS_LOADERS=true takes its own loaders instead of DataLoader. */
const source = openSource();
const ownLoaders = process.env.MERCURIUS_LOADERS === 'true';

const app = Fastify({ logger: false });
await app.register(mercurius, {
  schema: TYPE_DEFINITIONS,
  resolvers: {
    Query: {
      pets: (_, { limit, status }, { authorization }) => source.list(limit, status, authorization),
      ...(!ownLoaders && { pet: (_, { id }, { pets }) => pets.load(id) }),
    },
    Mutation: { addPet: (_, { input }, { authorization }) => source.add(input, authorization) },
  },
  ...(ownLoaders && {
    loaders: {
      Query: {
        pet: {
          loader: (queries, { authorization }) =>
            source.findMany(
              queries.map(({ params }) => params.id),
              authorization,
            ),
          opts: { cache: false },
        },
      },
    },
  }),
  context: ({ headers: { authorization } }) =>
    ownLoaders
      ? { authorization }
      : { authorization, pets: new DataLoader((ids) => source.findMany(ids, authorization)) },
  jit: 1,
  graphiql: false,
});
await app.listen({ port: PORT, host: HOST });
