// Records what GraphQL clients send, with the real packages, into recordings/: node bench/record.mjs
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { ApolloClient, gql, HttpLink, InMemoryCache } from '@apollo/client/core';
import { BatchHttpLink } from '@apollo/client/link/batch-http';
import { cacheExchange, Client, fetchExchange } from '@urql/core';
import { format } from 'prettier';
import { GraphQLClient } from 'graphql-request';
import relay from 'relay-runtime';
import { DOCUMENTS, fromQueryString, respond, toVariables } from './documents.mjs';

const RECORDINGS = fileURLToPath(new URL('recordings/', import.meta.url));
const RELAY_COMPILER = 'relay-compiler@21.0.1';
const headers = { authorization: 'Bearer KEY' };
const idsUpTo = (count) => toVariables(Array.from({ length: count }, (_, index) => String(index + 1)));

/** The variables of each document. The benchmark replaces them. */
const VARIABLES = {
  pets: { limit: 20 },
  petsInclude: { limit: 20, withStatus: true },
  lookup1: idsUpTo(1),
  lookup5: idsUpTo(5),
  lookup50: idsUpTo(50),
  add: { input: { name: 'Newcomer', categoryId: '7', status: 'PENDING' } },
};
const isMutation = (name) => name === 'add';

/** `connect(url)` returns a function that sends one of the documents the way the client's documentation shows. */
const CLIENTS = {
  '@apollo/client': (uri) => (name) => {
    const link = new (name === 'batch' ? BatchHttpLink : HttpLink)({ uri, headers });
    const client = new ApolloClient({ link, cache: new InMemoryCache() });
    const query = (document, variables) => client.query({ query: gql(DOCUMENTS[document]), variables });
    if (name === 'batch')
      return Promise.all([
        query('pets', VARIABLES.pets),
        ...['1', '2', '3', '4'].map((i0) => query('lookup1', { i0 })),
      ]);
    if (isMutation(name)) return client.mutate({ mutation: gql(DOCUMENTS[name]), variables: VARIABLES[name] });
    return query(name, VARIABLES[name]);
  },
  '@urql/core': (url) => async (name) => {
    const client = new Client({ url, exchanges: [cacheExchange, fetchExchange], fetchOptions: { headers } });
    const run = isMutation(name) ? 'mutation' : 'query';
    await client[run](DOCUMENTS[name], VARIABLES[name]).toPromise();
  },
  'relay-runtime': (url) => {
    const artifacts = compileForRelay();
    // https://relay.dev/docs/guides/network-layer/
    const fetchGraphQL = async (request, variables) => {
      const response = await fetch(url, {
        method: 'POST',
        headers: { 'Content-Type': 'application/json', ...headers },
        body: JSON.stringify({ query: request.text, variables }),
      });
      return await response.json();
    };
    return async (name) => {
      const store = new relay.Store(new relay.RecordSource());
      const environment = new relay.Environment({ network: relay.Network.create(fetchGraphQL), store });
      const artifact = (await artifacts)[name];
      const variables = VARIABLES[name];
      if (!isMutation(name)) return relay.fetchQuery(environment, artifact, variables).toPromise();
      return new Promise((onCompleted, onError) => {
        relay.commitMutation(environment, { mutation: artifact, variables, onCompleted, onError });
      });
    };
  },
  'graphql-request': (url) => {
    const client = new GraphQLClient(url, { headers });
    return (name) => client.request({ document: DOCUMENTS[name], variables: VARIABLES[name] });
  },
};

/** Has Relay's compiler compile the documents. It wants the file's name at the start of each operation's name. */
async function compileForRelay() {
  const src = mkdtempSync(join(tmpdir(), 'relay-'));
  const schema = fileURLToPath(new URL('../schema/animal-store.graphql', import.meta.url));
  const operations = Object.entries(DOCUMENTS).map(
    ([name, text]) => `graphql\`${text.replace(/^(query|mutation) (\w+)/, `$1 app_${name}_$1`)}\`;\n`,
  );
  writeFileSync(join(src, 'relay.config.json'), JSON.stringify({ src, schema, language: 'javascript' }));
  writeFileSync(join(src, 'package.json'), '{ "type": "module" }');
  writeFileSync(join(src, 'app.js'), operations.join(''));
  spawnSync('npx', ['--yes', RELAY_COMPILER, 'relay.config.json'], { cwd: src, stdio: ['ignore', 2, 2] });
  const artifacts = {};
  for (const name of Object.keys(DOCUMENTS)) {
    const kind = isMutation(name) ? 'mutation' : 'query';
    artifacts[name] = (await import(join(src, `__generated__/app_${name}_${kind}.graphql.js`))).default;
  }
  rmSync(src, { recursive: true });
  return artifacts;
}

/** What the benchmark's own connection sends instead. */
const OWN_HEADERS = ['host', 'connection', 'content-length'];

function startRecorder(onRequest) {
  const server = createServer(async (request, response) => {
    const chunks = [];
    for await (const chunk of request) chunks.push(chunk);
    const text = Buffer.concat(chunks).toString();
    const kept = Object.entries(request.headers).filter(([name]) => !OWN_HEADERS.includes(name));
    const body = text === '' ? undefined : JSON.parse(text);
    if (body !== undefined && JSON.stringify(body) !== text)
      throw new Error('the body is not what JSON.stringify writes');
    onRequest({ method: request.method, path: request.url, headers: Object.fromEntries(kept), body });
    response.setHeader('Content-Type', 'application/json');
    const answer = Array.isArray(body) ? body.map(respond) : respond(body ?? fromQueryString(request.url));
    response.end(JSON.stringify(answer));
  });
  return new Promise((resolve) => server.listen(0, '127.0.0.1', () => resolve(server)));
}

function versionOf(name) {
  const folder = [new URL('.', import.meta.url), new URL('../', import.meta.url)]
    .map((parent) => new URL(`node_modules/${name}/package.json`, parent))
    .find((file) => existsSync(file));
  return JSON.parse(readFileSync(folder, 'utf8')).version;
}

mkdirSync(RECORDINGS, { recursive: true });
let seen = [];
const server = await startRecorder((request) => seen.push(request));
const url = `http://127.0.0.1:${server.address().port}/graphql`;
for (const [name, connect] of Object.entries(CLIENTS)) {
  const send = connect(url);
  const requests = {};
  for (const document of [...Object.keys(DOCUMENTS), ...(name === '@apollo/client' ? ['batch'] : [])]) {
    seen = [];
    await send(document);
    if (seen.length !== 1) throw new Error(`${name} sent ${seen.length} requests for ${document}`);
    [requests[document]] = seen;
  }
  const file = `${name.replace(/^@|\/core$/g, '').replace('/', '-')}.json`;
  const recording = JSON.stringify({ client: `${name} ${versionOf(name)}`, requests });
  writeFileSync(join(RECORDINGS, file), await format(recording, { parser: 'json', printWidth: 120 }));
  console.log(`${file}: ${Object.keys(requests).join(', ')}`);
}
server.close();
