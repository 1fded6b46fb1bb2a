// Sends hostile requests, one at a time, and reports how long each holds the event loop, in CPU time:
// npx tsx bench/event-loop.mjs [--program DIR] [--only TEXT] [--proxy]
import { mkdtempSync, rmSync } from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { text } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { HOSTILE_BODIES, HOSTILE_DOCUMENTS } from '../test/hostile/hostile-documents.ts';
import { createDatabase } from './database.mjs';
import { send } from './load/load.mjs';
import { killAll, planCores } from './machine.mjs';
import { startProgram } from './servers.mjs';

const REPEATS = 5;
/** More than one, because the work on new documents has a budget for each key. */
const KEYS = 10;
const list = (count, part) => Array.from({ length: count }, (_, index) => part(index)).join(' ');
const lookups = `query ($i: ID!) { ${list(50, (index) => `a${index}: pet(id: $i) { id name categoryId status }`)} }`;
const graphql = (...operations) => JSON.stringify(operations.length === 1 ? operations[0] : operations);
const batch = (toOperation) => graphql(...Array.from({ length: 20 }, (_, index) => toOperation(index)));
const lookUp = (first) =>
  batch((i) => ({
    query: `{ ${list(100, (j) => `a${j}: pet(id: ${first + i * 100 + j}) { id name categoryId status }`)} }`,
  }));

/**
 * Requests that take work. Each gets a number, so that no document is sent twice. The third part is the key, if it is
 * none of the store's.
 */
const COSTLY = [
  [
    '20 documents of 100 skipped lists',
    (n) => batch((i) => ({ query: `query Q${n}x${i} { ${list(100, (j) => `a${j}: pets @skip(if: true) { id }`)} }` })),
  ],
  [
    '20 documents of 100 lists',
    (n) => batch((i) => ({ query: `query Q${n}x${i} { ${list(100, (j) => `a${j}: pets(limit: 1) { id }`)} }` })),
  ],
  [
    '20 documents of 100 aliases of a fragment',
    (n) =>
      batch((i) => ({
        query: `query Q${n}x${i} { ${list(100, (j) => `a${j}: pets(limit: 1) { ...F }`)} } fragment F on Pet { ${'name '.repeat(20)}}`,
      })),
  ],
  [
    '100 aliases of a long list',
    (n) =>
      graphql({ query: `query Q${n} { ${list(100, (j) => `a${j}: pets(limit: 100) { ${'name '.repeat(20)}}`)} }` }),
  ],
  [
    'the longest list',
    (n) =>
      graphql({
        query: `query Q${n} { ${list(100, (j) => `a${j}: pets(limit: 100) { id name categoryId status }`)} }`,
      }),
  ],
  [
    '20 times the longest list',
    () => batch(() => ({ query: `{ ${list(100, (j) => `a${j}: pets(limit: 100) { id name categoryId status }`)} }` })),
  ],
  [
    '20 times 15 lists',
    () =>
      batch((i) => ({
        query: `{ ${list(15, (j) => `a${j}: pets(limit: ${100 - i}) { id name categoryId status }`)} }`,
      })),
  ],
  ['20 times 100 lookups', (n) => lookUp(n * 2_000)],
  ['20 times 100 lookups of absent animals', (n) => lookUp(1e9 + n * 2_000)],
  ['20 times 100 lookups with a made-up key', (n) => lookUp(n * 2_000), (n) => `made-up-${n}`],
  [
    '20 times 100 variables that are null, after line breaks',
    (n) =>
      batch((i) => ({
        query: `query Q${n}x${i}($n: Int) {${'\n'.repeat(1_900)} ${list(100, (j) => `a${j}: pets(limit: $n) { id }`)} }`,
        variables: { n: null },
      })),
  ],
  [
    '20 times 100 variables that are absent, after line breaks',
    (n) =>
      batch(() => ({
        query: `query Q${n}(${list(100, (j) => `$n${j}: Int!`)}) {${'\n'.repeat(1_900)} ${list(100, (j) => `a${j}: pets(limit: $n${j}) { id }`)} }`,
      })),
  ],
  [
    '20 times 100 lists that are too long, after line breaks',
    (n) =>
      batch((i) => ({
        query: `query Q${n}x${i} {${'\n'.repeat(1_900)} ${list(100, (j) => `a${j}: pets(limit: 500) { id }`)} }`,
      })),
  ],
  [
    '20 combinations of conditions',
    (n) => {
      const names = list(5, (j) => `$c${j}: Boolean!`);
      const fields = list(100, (j) => `a${j}: pets(limit: 1) @skip(if: $c${j % 5}) { id name categoryId status }`);
      const toVariables = (i) => Object.fromEntries([16, 8, 4, 2, 1].map((bit, j) => [`c${j}`, (i & bit) > 0]));
      return batch((i) => ({ query: `query Q${n}(${names}) { ${fields} }`, variables: toVariables(i) }));
    },
  ],
  [
    '20 operations of one document',
    (n) => {
      const operations = list(20, (j) => `query O${j} { ${list(19, (k) => `a${k}: pet(id: ${k}) { ...F }`)} }`);
      const query = `${operations} fragment F on Pet { id name categoryId status } # ${n}`;
      return batch((i) => ({ query, operationName: `O${i}` }));
    },
  ],
  [
    '20 documents without a key',
    (n) => batch((i) => ({ query: `query Q${n}x${i} { __typename ${'id '.repeat(4_900)}}` })),
    () => '',
  ],
  ['20 times 50 lookups', (n) => batch((i) => ({ query: lookups, variables: { i: n * 20 + i } }))],
  [
    'introspection of everything',
    (n) =>
      graphql({
        query: `query Q${n} { __schema { types { name fields { name type { name ofType { name } } args { name } } } } }`,
      }),
  ],
  [
    'a block string of line breaks',
    (n) => graphql({ query: `query Q${n} { pet(id: """${'\n'.repeat(1_000_000)}""") { id } }` }),
  ],
  [
    'a block string of indented lines',
    (n) => graphql({ query: `query Q${n} { pet(id: """${'\n a'.repeat(330_000)}""") { id } }` }),
  ],
  [
    'a variable of 1 MB beside a float',
    () => `{"query":"query($i: ID!) { pet(id: $i) { id } }","variables":{"i":1.5,"x":"${'1.5e3 '.repeat(170_000)}"}}`,
  ],
  ...[
    ['a long name', 'name: $x, categoryId: 1', 'x'],
    ['a long name of white space', 'name: $x, categoryId: 1', '\u00a0'],
    ['a long category', 'name: "x", categoryId: $x', '0'],
  ].map(([name, input, character]) => [
    `100 additions with ${name}`,
    (n) =>
      graphql({
        query: `mutation M${n}($x: ${name.includes('name') ? 'String' : 'ID'}!) { ${list(100, (j) => `a${j}: addPet(input: { ${input} }) { id }`)} }`,
        variables: { x: character.repeat(name.includes('white') ? 500_000 : 1_000_000) },
      }),
  ]),
  [
    '20 times 100 additions with a long name',
    (n) =>
      batch((i) => ({
        query: `mutation M${n}x${i}($x: String!) { ${list(100, (j) => `a${j}: addPet(input: { name: $x, categoryId: 1 }) { id }`)} }`,
        variables: { x: 'x'.repeat(40_000) },
      })),
  ],
  ...[' ', '1', '0'].map((character) => [
    `100 lookups of a long identifier of ${JSON.stringify(character)}`,
    (n) =>
      graphql({
        query: `query Q${n}($i: ID!) { ${list(100, (j) => `a${j}: pet(id: $i) { id }`)} }`,
        variables: { i: character.repeat(1_000_000) },
      }),
  ]),
  [
    'a variable of 130 kB of floats',
    () => `{"query":"query($i: ID!) { pet(id: $i) { id } }","variables":{"i":1,"x":[${'1.5,'.repeat(32_000)}1]}}`,
  ],
  [
    'a variable of 1 MB',
    () => graphql({ query: 'query($i: ID!) { pet(id: $i) { id } }', variables: { i: 'é'.repeat(500_000) } }),
  ],
];

async function main() {
  const here = fileURLToPath(new URL('..', import.meta.url));
  const { values } = parseArgs({
    options: {
      program: { type: 'string', default: here },
      only: { type: 'string', default: '' },
      proxy: { type: 'boolean', default: false },
    },
  });
  const directory = mkdtempSync(join(tmpdir(), 'animal-store-bench-'));
  const cores = planCores();
  const root = resolve(values.program);
  const socket = join(directory, 'probe');
  let database;
  try {
    database = await createDatabase(root, { cores, directory }, KEYS);
    const place = { core: cores.load, directory };
    const upstream = values.proxy ? await startProgram(root, database.env, place) : undefined;
    const backend = upstream ? { UPSTREAM_URL: `http://127.0.0.1:${upstream.port}/v1` } : database.env;
    const env = { ...backend, PROBE_SOCKET: socket, NODE_ENV: 'development' };
    const flags = ['--import', fileURLToPath(new URL('load/event-loop-probe.mjs', import.meta.url))];
    const server = await startProgram(root, env, { core: cores.server, directory, flags });
    let sent = 0;
    const post = (body, key = database.keys[sent++ % KEYS]) => {
      const authorization = `Bearer ${key}`;
      const headers = { 'content-type': 'application/json', authorization };
      return send(server.port, { method: 'POST', path: '/graphql', headers, body });
    };
    const requests = [
      ...COSTLY,
      ...HOSTILE_DOCUMENTS.map(([name, query]) => [name, (n) => graphql({ query: `${query} #${n}` })]),
      ...HOSTILE_BODIES.map(([name, body]) => [name, () => body]),
    ].filter(([name]) => name.includes(values.only));
    for (let n = 0; n < 500; n += 1) {
      const query = `query W${n} { a: pets(limit: 3) { id name } pet(id: ${n}) { id } x${n % 3 === 0 ? '' : ': __typename'} }`;
      await post(graphql({ query }));
    }
    const rows = [];
    for (const [name, toBody, toKey] of requests) {
      const times = [];
      let status;
      for (let repeat = 0; repeat < REPEATS; repeat += 1) {
        await sleep(20);
        await readProbe(socket);
        ({ status } = await post(toBody(repeat), toKey?.(repeat)));
        times.push((await readProbe(socket)) / 1e6);
      }
      times.sort((a, b) => a - b);
      rows.push({ name, status, median: times[REPEATS >> 1], longest: times[REPEATS - 1] });
    }
    rows.sort((a, b) => b.median - a.median);
    console.log('| request | status | median, ms | longest, ms |\n| --- | --- | --- | --- |');
    for (const { name, status, median, longest } of rows)
      console.log(`| ${name} | ${status} | ${median.toFixed(1)} | ${longest.toFixed(1)} |`);
  } finally {
    killAll();
    await database?.close();
    rmSync(directory, { recursive: true, force: true });
  }
}

/** The longest turn of the event loop since the last call, in nanoseconds. */
async function readProbe(path) {
  return Number(await text(connect(path)));
}

main().catch((error) => {
  console.error(`event-loop: ${error.stack}`);
  process.exitCode = 1;
});
