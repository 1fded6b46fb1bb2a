import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { createDatabase } from './database.mjs';
import { toMessage, toToolCall } from './requests.mjs';
import { commandOf, startPeer } from './servers.mjs';

const run = promisify(execFile);
const UNREACHABLE_LIMIT = '2000000000';

const list = (count, part) => Array.from({ length: count }, (_, index) => part(index)).join(' ');
const post = (body, key) => ({
  method: 'POST',
  path: '/graphql',
  headers: { 'content-type': 'application/json', ...(key && { authorization: `Bearer ${key}` }) },
  body: typeof body === 'string' ? body : JSON.stringify(body),
});
const get = (path, key) => ({ method: 'GET', path, headers: key ? { authorization: `Bearer ${key}` } : {}, body: '' });
const many = (count, make) => Array.from({ length: count }, (_, index) => make(index));
const batch = (make) => many(20, make);
const skipped = (name) => ({ query: `query ${name} { ${list(100, (j) => `a${j}: pets @skip(if: true) { id }`)} }` });
const lookups = (first) => ({ query: `{ ${list(50, (j) => `a${j}: pet(id: ${first + j}) { id name }`)} }` });
/** A megabyte of body, in as many chunks. */
const inChunks = (key) => {
  const { headers } = post('', key);
  const body = `${[...'{'.padEnd(1_000_000)].map((byte) => `1\r\n${byte}\r\n`).join('')}0\r\n\r\n`;
  return { method: 'POST', path: '/graphql', headers: { ...headers, 'transfer-encoding': 'chunked' }, body };
};
const MEMBERS = `{"query":"{ __typename }","variables":{${many(19_900, (n) => `"member${n}${'x'.repeat(30)}":1`).join()}}}`;
const WHITE_SPACE = `a${' '.repeat(15_000)};`;
const LONG_STRING = JSON.stringify({ query: '{ __typename }', variables: { text: 'x'.repeat(1_000_000) } });
const ONE_ANIMAL = `/graphql?query=${encodeURIComponent('{ pets(limit: 1) { id } }')}`;
/** As many animals as one response may have. */
const longLists = (count) => ({
  query: `{ ${list(count, (j) => `a${j}: pets(limit: 100) { id name categoryId status }`)} }`,
});

/**
 * What each caller sends, over how many connections, and the statuses that it gets. `key` has the plan free, `paid` has
 * no limit to speak of. A caller with a `metricsPort` sends it there.
 */
export const CALLERS = [
  {
    name: 'new documents, free of charge',
    connections: 4,
    toRequests: ({ key }) =>
      many(200, (n) =>
        post(
          batch((i) => skipped(`Q${n}x${i}`)),
          key,
        ),
      ),
    statuses: [200, 429],
  },
  {
    name: 'batches of lookups beyond its limit',
    connections: 4,
    toRequests: ({ key }) =>
      many(200, (n) =>
        post(
          many(2, (i) => lookups(n + i)),
          key,
        ),
      ),
    statuses: [200, 429],
  },
  {
    name: 'long lists in one operation',
    connections: 4,
    toRequests: ({ paid }) => [post(longLists(35), paid)],
    statuses: [200],
  },
  {
    name: 'batches of long lists',
    connections: 4,
    toRequests: ({ paid }) => [
      post(
        many(17, () => longLists(2)),
        paid,
      ),
    ],
    statuses: [200],
  },
  {
    name: 'lists of one animal',
    connections: 100,
    toRequests: ({ paid }) => [get(ONE_ANIMAL, paid)],
    statuses: [200],
  },
  {
    name: 'the same, 20 pipelined',
    connections: 4,
    pipelined: 20,
    toRequests: ({ paid }) => [get(ONE_ANIMAL, paid)],
    statuses: [200],
  },
  {
    name: 'a path that does not exist, 20 pipelined',
    connections: 8,
    pipelined: 20,
    toRequests: () => [get('/nowhere')],
    statuses: [404],
  },
  {
    name: 'probes, 20 pipelined',
    connections: 8,
    pipelined: 20,
    toRequests: () => [get('/livez')],
    statuses: [200],
  },
  {
    name: 'a refused method, 20 pipelined',
    connections: 8,
    pipelined: 20,
    toRequests: ({ paid }) => [get('/mcp', paid)],
    statuses: [405],
  },
  {
    name: 'nothing but the name of a type, 400 connections',
    connections: 400,
    toRequests: ({ paid }) => [post({ query: '{ __typename }' }, paid)],
    statuses: [200, 503],
  },
  {
    name: 'a hundred one-byte chunks, 20 pipelined',
    connections: 8,
    pipelined: 20,
    toRequests: ({ paid }) => {
      const { headers } = post('', paid);
      const body = `${'1\r\n \r\n'.repeat(99)}18\r\n{"query":"{__typename}"}\r\n0\r\n\r\n`;
      return [{ method: 'POST', path: '/graphql', headers: { ...headers, 'transfer-encoding': 'chunked' }, body }];
    },
    statuses: [200],
  },
  {
    name: 'ten thousand one-byte chunks that nobody reads',
    connections: 8,
    toRequests: () => [
      {
        method: 'GET',
        path: '/nowhere',
        headers: { 'transfer-encoding': 'chunked' },
        body: `${'1\r\n \r\n'.repeat(10_000)}0\r\n\r\n`,
      },
    ],
    statuses: [404],
  },
  {
    name: 'requests without a key: 401',
    connections: 100,
    toRequests: () => [post({ query: '{ pets { id } }' })],
    statuses: [401, 429],
  },
  {
    name: 'bodies that are not JSON: 400',
    connections: 100,
    toRequests: ({ key }) => [post('{', key)],
    statuses: [400],
  },
  {
    name: 'a megabyte in one-byte chunks',
    connections: 4,
    toRequests: ({ key }) => [inChunks(key)],
    statuses: [400, 408],
    isSlow: true,
  },
  {
    name: 'the same without a key',
    connections: 4,
    toRequests: () => [inChunks()],
    isSlow: true,
    statuses: [400, 401, 408, 429],
  },
  {
    name: 'bodies with 19,900 members',
    connections: 8,
    toRequests: ({ key }) => [post(MEMBERS, key)],
    statuses: [200],
  },
  {
    name: 'a string of a megabyte',
    connections: 8,
    toRequests: ({ key }) => [post(LONG_STRING, key)],
    statuses: [200],
  },
  {
    name: 'bodies that never end',
    connections: 600,
    toRequests: ({ key }) => [{ ...post('x'.repeat(900_000), key), length: 1_000_000 }],
    statuses: [408],
    isSlow: true,
    isUnfinished: true,
  },
  {
    name: 'white space in Accept',
    connections: 8,
    toRequests: () => [{ ...get('/graphql?query={__typename}'), headers: { accept: WHITE_SPACE } }],
    // An embedded store tells also those without a key what it accepts.
    statuses: [401, 406, 429],
  },
  {
    name: 'members, a string and no end, without a key',
    connections: 100,
    toRequests: () => [post(MEMBERS), post(LONG_STRING), { ...post('x'.repeat(900_000)), length: 1_000_000 }],
    isSlow: true,
    // In development, the name of a type needs no key.
    statuses: [200, 401, 408, 429],
  },
  {
    name: 'white space in Accept, with a key',
    connections: 8,
    toRequests: ({ key }) => [
      { ...get('/graphql?query={__typename}', key), headers: { ...get('', key).headers, accept: WHITE_SPACE } },
    ],
    statuses: [406],
  },
  {
    name: 'an agent that calls a tool without end',
    connections: 100,
    toRequests: ({ paid }) => [toToolCall('2026-07-28', paid)],
    statuses: [200],
  },
  {
    name: 'an agent beyond its limit',
    connections: 100,
    toRequests: ({ key }) => [toToolCall('2026-07-28', key)],
    statuses: [200, 429],
  },
  {
    name: 'an agent that lists the tools without end',
    connections: 100,
    toRequests: ({ paid }) => [toMessage('2026-07-28', 'tools/list', {}, paid)],
    statuses: [200],
  },
  { name: '/metrics', connections: 100, toRequests: () => [get('/metrics')], statuses: [200] },
  {
    name: '/metrics at METRICS_PORT',
    metricsPort: 9464,
    connections: 100,
    toRequests: () => [get('/metrics')],
    statuses: [200],
  },
  {
    name: '/readyz?backend=true',
    connections: 100,
    toRequests: () => [get('/readyz?backend=true')],
    statuses: [200],
  },
  {
    name: 'keys that nobody has',
    connections: 100,
    toRequests: () => many(5_000, (n) => post({ query: '{ pets { id } }' }, `made-up-${n}`)),
    statuses: [401, 429],
  },
];

/**
 * Checks that a caller got what it should: without this, requests that the program refuses at once look like fair shares.
 * Any of them may get a 503 because of overload.
 * @param counts - the number of responses by status
 * @throws Error that names the other statuses, or says that there was no response
 */
export function requireStatuses({ name, statuses, isSlow }, counts) {
  const others = Object.keys(counts).filter((status) => status !== '503' && !statuses.includes(Number(status)));
  if (others.length > 0) throw new Error(`${name}: ${others.join()} instead of ${statuses.join(' or ')}`);
  if (!isSlow && !statuses.some((status) => counts[status] > 0))
    throw new Error(`${name}: no response was ${statuses.join(' or ')}`);
}

/** Each opens what is behind the program. `keys` are made after the program has started. */
export const MODES = {
  server: async (root, place) => {
    const { keys, ...database } = await createDatabase(root, place, 2);
    return {
      ...database,
      getKeys: async () => ({ honest: keys[0], paid: keys[1], key: await createKey(root, database.env, 'free') }),
    };
  },
  embedded: (root, { directory }) => {
    // Production has no sample animals.
    const env = { DATA_DIR: join(directory, 'store'), NODE_ENV: 'development' };
    const getKeys = async () => ({
      honest: await createKey(root, env, 'enterprise'),
      paid: await createKey(root, env, 'enterprise'),
      key: await createKey(root, env, 'free'),
    });
    return { env, getKeys, close: () => undefined };
  },
  proxy: async (_, { cores, directory }) => {
    const upstream = await startPeer('rest-store', {}, { core: cores.load, directory });
    const getKeys = () => ({ honest: 'bench-key-0000', paid: 'bench-key-0001', key: 'bench-key-0002' });
    return { env: { UPSTREAM_URL: `http://127.0.0.1:${upstream.port}/v1` }, getKeys, close: () => upstream.stop() };
  },
};

async function createKey(root, env, plan) {
  const limits = plan === 'enterprise' ? ['--per-minute', UNREACHABLE_LIMIT, '--per-day', UNREACHABLE_LIMIT] : [];
  const args = [...commandOf(root, 'keys'), 'create', '--plan', plan, ...limits, '--json'];
  const { stdout } = await run(process.execPath, args, { cwd: root, env: { PATH: process.env.PATH, ...env } });
  return JSON.parse(stdout).key;
}
