import { spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const here = (path) => fileURLToPath(new URL(path, import.meta.url));

/** Hive Gateway as its documentation starts it: a supergraph composed from the OpenAPI document, served by its command. */
export function launchHive({ flags, directory, upstreamUrl, openApiFile }) {
  const supergraph = join(directory, 'supergraph.graphql');
  const { status, stderr } = spawnSync(process.execPath, [here('compose.mjs'), openApiFile, upstreamUrl, supergraph], {
    encoding: 'utf8',
    timeout: 60_000,
  });
  if (status !== 0) throw new Error(`the supergraph could not be composed:\n${stderr}`);
  const config = join(directory, 'gateway.config.mjs');
  writeFileSync(config, 'export const gatewayConfig = { logging: false, landingPage: false, graphiql: false };\n');
  const command = here('../node_modules/@graphql-hive/gateway/dist/bin.js');
  const options = ['--host', '127.0.0.1', '--config-path', config, '--fork', '1', '--jit', '--disable-websockets'];
  return { args: [...flags, command, 'supergraph', supergraph, ...options], env: {} };
}
