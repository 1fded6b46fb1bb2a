import { writeFileSync } from 'node:fs';
import { getComposedSchemaFromConfig } from '@graphql-mesh/compose-cli';
import { loadOpenAPISubgraph } from '@omnigraph/openapi';

/** Makes a supergraph of an OpenAPI document: node compose.mjs DOCUMENT UPSTREAM-URL OUTPUT */
const [, , source, endpoint, output] = process.argv;

const silent = () => undefined;
const logger = { log: silent, debug: silent, info: silent, warn: silent, error: console.error, child: () => logger };

const supergraph = await getComposedSchemaFromConfig(
  {
    subgraphs: [
      {
        sourceHandler: loadOpenAPISubgraph('Store', {
          source,
          endpoint,
          // Without the error bodies a field is an animal rather than a union of animal and error, which is cheaper.
          ignoreErrorResponses: true,
          operationHeaders: { authorization: '{context.headers.authorization}' },
        }),
      },
    ],
  },
  logger,
);
writeFileSync(output, supergraph);
process.exit(0);
