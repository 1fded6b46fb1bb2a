// Records what GraphQL clients send, with the real packages, into recordings/: node bench/record.mjs
import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { ApolloClient, gql, HttpLink, InMemoryCache } from '@apollo/client/core';
import { BatchHttpLink } from '@apollo/client/link/batch-http';
import { cacheExchange, Client, fetchExchange } from '@urql/core';
import { format } from 'prettier';
import { GraphQLClient } from 'graphql-request';
import relay from 'relay-runtime';
import { DOCUMENTS, respond, toVariables } from './documents.mjs';

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
  '@apollo/client': (url) => {
    const connect = (link) => new ApolloClient({ link, cache: new InMemoryCache() });
    return async (name) => {
      if (name === 'batch') {
        const client = connect(new BatchHttpLink({ uri: url, headers, batchMax: 5, batchInterval: 20 }));
        const queries = ['1', '2', '3', '4'].map((id) => ({ query: gql(DOCUMENTS.lookup1), variables: { i0: id } }));
        queries.unshift({ query: gql(DOCUMENTS.pets), variables: VARIABLES.pets });
        await Promise.all(queries.map((query) => client.query(query)));
        return;
      }
      const client = connect(new HttpLink({ uri: url, headers }));
      const document = gql(DOCUMENTS[name]);
      const variables = VARIABLES[name];
      await (isMutation(name)
        ? client.mutate({ mutation: document, variables })
        : client.query({ query: document, variables }));
    };
  },
  '@urql/core': (url) => async (name) => {
    const client = new Client({ url, exchanges: [cacheExchange, fetchExchange], fetchOptions: { headers } });
    const run = isMutation(name) ? 'mutation' : 'query';
    const { error } = await client[run](DOCUMENTS[name], VARIABLES[name]).toPromise();
    if (error) throw error;
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
    const { commitMutation, Environment, fetchQuery, Network, RecordSource, Store } = relay;
    return async (name) => {
      const environment = new Environment({
        network: Network.create(fetchGraphQL),
        store: new Store(new RecordSource()),
      });
      const artifact = (await artifacts)[name];
      const variables = VARIABLES[name];
      if (!isMutation(name)) return fetchQuery(environment, artifact, variables).toPromise();
      return new Promise((onCompleted, onError) => {
        commitMutation(environment, { mutation: artifact, variables, onCompleted, onError });
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
  const directory = mkdtempSync(join(tmpdir(), 'relay-'));
  try {
    const schema = fileURLToPath(new URL('../schema/animal-store.graphql', import.meta.url));
    const config = { src: directory, schema, language: 'javascript', eagerEsModules: true };
    writeFileSync(join(directory, 'relay.config.json'), JSON.stringify(config));
    writeFileSync(join(directory, 'package.json'), '{ "type": "module" }');
    const operations = Object.entries(DOCUMENTS).map(
      ([name, text]) => `graphql\`${text.replace(/^(query|mutation) (\w+)/, `$1 app_${name}_$1`)}\`;\n`,
    );
    writeFileSync(join(directory, 'app.js'), operations.join(''));
    const { status, stdout, stderr } = spawnSync('npx', ['--yes', RELAY_COMPILER, 'relay.config.json'], {
      cwd: directory,
      encoding: 'utf8',
    });
    if (status !== 0) throw new Error(`${RELAY_COMPILER} failed: ${stdout}${stderr}`);
    const artifacts = {};
    for (const name of Object.keys(DOCUMENTS)) {
      const kind = isMutation(name) ? 'mutation' : 'query';
      const file = join(directory, '__generated__', `app_${name}_${kind}.graphql.js`);
      artifacts[name] = (await import(file)).default;
    }
    return artifacts;
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
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
    response.end(JSON.stringify(Array.isArray(body) ? body.map(respond) : respond(body ?? fromQuery(request.url))));
  });
  return new Promise((resolve) => server.listen(0, '127.0.0.1', () => resolve(server)));
}

function fromQuery(path) {
  const { query, variables, operationName } = Object.fromEntries(new URL(path, 'http://host').searchParams);
  return { query, operationName, variables: JSON.parse(variables) };
}

function versionOf(name) {
  let directory = dirname(createRequire(import.meta.url).resolve(name));
  for (;;) {
    try {
      const found = JSON.parse(readFileSync(join(directory, 'package.json'), 'utf8'));
      if (found.name === name) return found.version;
    } catch {
      // There is no package.json here; look further up.
    }
    directory = dirname(directory);
  }
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
