import { existsSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { isDeepStrictEqual } from 'node:util';
import { animal, ANIMAL_COUNT, list } from '../data/animals.mjs';
import { createDatabase } from '../machine/database.mjs';
import { table } from '../report/markdown.mjs';
import { ask } from './ask.mjs';
import { insertKeys } from './insert-keys.mjs';

const CONNECTIONS = 32;
const KEYS_AT_ONCE = 10_000;
const SAMPLES = 10;
/** Every sample comes after the same number of whole groups of keys. */
export const LEAST_REQUESTS = KEYS_AT_ONCE * SAMPLES;
const PROBE = fileURLToPath(new URL('memory-probe.mjs', import.meta.url));

/**
 * Memory in use, after garbage collection, over requests that are all different: each with a key of its own, four in five
 * with a valid one; the fifth is unknown and comes from an address of its own. Of the documents, which are all different
 * too, one in ten is no valid one.
 * @param documents - requests with a document of their own; those after them share one
 */
export async function measureMemory({ root, requests, documents, directory, start }) {
  const { generateApiKey } = await import(`${root}/dist/access/api-key.js`);
  const database = await createDatabase(root, 1);
  try {
    const file = join(directory, 'memory.json');
    const server = await start({ DATABASE_URL: database.url, TRUST_PROXY: 'true', MEMORY_FILE: file }, [
      '--expose-gc',
      `--import=${PROBE}`,
    ]);
    const samples = [{ sent: 0, ...(await readMemory(server.pid, file)) }];
    const startedAt = performance.now();
    let keys = [];
    for (let sent = 0; sent < requests; sent += KEYS_AT_ONCE) {
      keys = await insertKeys(database.client, KEYS_AT_ONCE);
      await askOnce({ port: server.port, keys, first: sent, documents, unknownKey: generateApiKey });
      server.emptyLog();
      if ((sent + KEYS_AT_ONCE) % (requests / SAMPLES) !== 0) continue;
      samples.push({ sent: sent + KEYS_AT_ONCE, ...(await readMemory(server.pid, file)) });
      console.error(`${sent + KEYS_AT_ONCE} requests, ${((performance.now() - startedAt) / 1_000).toFixed(0)} s`);
    }
    await server.stop();
    return toMarkdown(samples, documents);
  } finally {
    await database.drop();
  }
}

/** One request for each key, some with an unknown one in its place. */
function askOnce({ port, keys, first, documents, unknownKey }) {
  let sent = 0;
  return ask({
    port,
    connections: CONNECTIONS,
    next() {
      if (sent === keys.length) return undefined;
      const index = first + sent;
      const key = isUnknown(index) ? unknownKey() : keys[sent];
      sent += 1;
      return { text: toText(index, key, index < documents ? index : 0), index };
    },
    check: (index, status, bytes, start, end) => {
      const fault = findFault(index, index < documents ? index : 0, status, bytes.utf8Slice(start, end));
      return fault && `request ${index}: ${fault}: HTTP status ${status}, ${bytes.utf8Slice(start, end).slice(0, 300)}`;
    },
  });
}

const isUnknown = (index) => index % 5 === 4;
const isInvalid = (document) => document % 10 === 3;
const limitOf = (document) => 1 + (document % 5);
const idOf = (document) => 1 + (document % ANIMAL_COUNT);

function toText(index, key, document) {
  const query = isInvalid(document)
    ? `{ pets { id nothing${document} } }`
    : `query Op${document}($v${document}: Int) { a${document}: pets(limit: $v${document}) { id name } b: pet(id: ${idOf(document)}) { n${document}: name } }`;
  const body = JSON.stringify({ query, variables: { [`v${document}`]: limitOf(document) } });
  return (
    'POST /graphql HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n' +
    `Authorization: Bearer ${key}\r\nX-Forwarded-For: 2001:db8::${(index >>> 16).toString(16)}:${(index & 0xffff).toString(16)}\r\n` +
    `Content-Length: ${body.length}\r\n\r\n${body}`
  );
}

function findFault(index, document, status, text) {
  const { data, errors } = JSON.parse(text);
  const code = errors?.[0].extensions.code;
  if (isUnknown(index)) return status === 401 && code === 'UNAUTHENTICATED' ? undefined : 'not UNAUTHENTICATED';
  if (isInvalid(document)) return status === 400 && code === 'GRAPHQL_VALIDATION_FAILED' ? undefined : 'not refused';
  const expected = {
    [`a${document}`]: list(limitOf(document)).map(({ id, name }) => ({ id, name })),
    b: { [`n${document}`]: animal(idOf(document)).name },
  };
  return status === 200 && isDeepStrictEqual(data, expected) ? undefined : 'another answer';
}

async function readMemory(pid, file) {
  rmSync(file, { force: true });
  process.kill(pid, 'SIGUSR2');
  while (!existsSync(file)) await sleep(20);
  return JSON.parse(readFileSync(file, 'utf8'));
}

function toMarkdown(samples, documents) {
  const megabytes = (bytes) => (bytes / 1e6).toFixed(1);
  const rows = samples.map(({ sent, rss, heapUsed, external }) => [
    sent.toLocaleString('en'),
    megabytes(heapUsed),
    megabytes(external),
    megabytes(rss),
  ]);
  const middle = samples[samples.length >> 1];
  const growth = (figure) => `${((samples.at(-1)[figure] / middle[figure] - 1) * 100).toFixed(1)} %`;
  return [
    `Memory after garbage collection, over requests with a key of their own each; the first ${documents.toLocaleString('en')} with a document of their own`,
    table(['requests', 'heap used, MB', 'external, MB', 'resident, MB'], rows),
    `Growth over the second half: heap ${growth('heapUsed')}, resident ${growth('rss')}.`,
  ].join('\n\n');
}
