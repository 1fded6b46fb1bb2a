import './with-resolvers.mjs';
import { createServer } from 'node:http';
import { postgraphile } from 'postgraphile';
import { makePgService } from 'postgraphile/adaptors/pg';
import { grafserv } from 'postgraphile/grafserv/node';
import { PostGraphileAmberPreset } from 'postgraphile/presets/amber';
import { HOST, PORT } from './source.mjs';

/**
 * PostGraphile 5 over the same table, with its own schema: lists instead of connections, which is the cheaper of its two
 * shapes and the same as everybody else's answer. It prepares its statements by default.
 */
const instance = postgraphile({
  extends: [PostGraphileAmberPreset],
  pgServices: [
    makePgService({
      connectionString: process.env.DATABASE_URL,
      schemas: ['public'],
      poolConfig: { max: Number(process.env.DATABASE_POOL ?? 10) },
    }),
  ],
  schema: { defaultBehavior: '-connection -resource:connection list resource:list' },
  grafserv: { port: PORT, host: HOST, graphqlPath: '/graphql', graphiql: false, watch: false, websockets: false },
  grafast: { explain: false },
});
const service = instance.createServ(grafserv);
const server = createServer();
server.on('error', (error) => {
  throw error;
});
await service.addTo(server);
server.listen(PORT, HOST);

if (process.env.PRINT_SCHEMA) {
  const { printSchema } = await import('graphql');
  console.log(printSchema(await instance.getSchema()));
}
