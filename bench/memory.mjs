// Sends documents that are all different to a server with a small heap, and reports its memory over time.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { createDatabase } from './database.mjs';
import { send } from './load/load.mjs';
import { killAll, planCores } from './machine.mjs';
import { startProgram } from './servers.mjs';

const HELP = `node bench/memory.mjs [options]

Sends documents that are all different, some of the worst kind, to a server with a small heap, and reports its memory
over time. Build first; a server of PostgreSQL is needed as in the benchmark. A million documents take about half an hour.

  --documents N   how many documents the server must answer (default 1000000)
  --heap MB       the server's --max-old-space-size (default 256)
  --keys N        how many keys take turns (default 20)
  --program DIR   the folder of the build (default: this one)`;

const CONNECTIONS = 32;
const SAMPLES = 10;
const SAMPLE_MS = 500;
/** How long a connection waits after a 429. The refused document does not count. */
const BACK_OFF_MS = 100;

const names = 'name '.repeat(20);
const aliased = Array.from({ length: 20 }, (_, index) => `n${index}: name`).join(' ');
const aliases = (field) => Array.from({ length: 100 }, (_, index) => `a${index}: ${field} { ...F }`).join(' ');
/** A fragment that names a field 20 times, under 100 aliases: 2.5 kB that a naive cache holds as 100 times their size. */
const worst = (title, field) => `query ${title} { ${aliases(field)} } fragment F on Pet { ${names}}`;

/** A document that differs from all others: of ten, six are ordinary, two are invalid and two are of the worst kind. */
function toDocument(index) {
  switch (index % 10) {
    case 6:
    case 7:
      return ['invalid', `{ pets(limit: 3) { id nothing${index} } }`];
    case 8:
      return ['worst, free of charge', worst(`Worst${index}`, 'pets(limit: 500)')];
    case 9:
      return ['worst', worst(`Worst${index}`, 'pets(limit: 1)')];
    default:
      return ['ordinary', `query Ordinary${index} { a${index}: pets(limit: 3) { id name } }`];
  }
}

const post = (server, key, query) =>
  send(server.port, {
    method: 'POST',
    path: '/graphql',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${key}` },
    body: JSON.stringify({ query }),
  });

async function main() {
  const { values } = parseArgs({
    options: {
      documents: { type: 'string', default: '1000000' },
      heap: { type: 'string', default: '256' },
      keys: { type: 'string', default: '20' },
      program: { type: 'string', default: fileURLToPath(new URL('..', import.meta.url)) },
      help: { type: 'boolean', default: false },
    },
  });
  if (values.help) {
    console.log(HELP);
    return;
  }
  const directory = mkdtempSync(join(tmpdir(), 'animal-store-bench-'));
  const cores = planCores();
  const root = resolve(values.program);
  for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, killAll);
  let database;
  try {
    database = await createDatabase(root, { cores, directory }, Number(values.keys));
    const flags = [`--max-old-space-size=${values.heap}`];
    const server = await startProgram(root, database.env, { core: cores.server, directory, flags });
    await sendDocuments(server, database.keys, Number(values.documents));
    await sendHostile(server, database);
    await server.stop();
  } finally {
    killAll();
    await database?.close();
    rmSync(directory, { recursive: true, force: true });
  }
}

/** Sends documents until so many were answered, and prints the memory and the responses. */
async function sendDocuments(server, keys, documents) {
  const outcomes = new Map();
  const samples = [];
  let sent = 0;
  let answered = 0;
  const worker = async () => {
    while (answered < documents) {
      const index = sent++;
      const [kind, query] = toDocument(index);
      const { status, text } = await post(server, keys[index % keys.length], query);
      const outcome = `${kind}: ${status}${/"code":"(\w+)"/.exec(text)?.[1].replace(/^/, ' ') ?? ''}`;
      outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + 1);
      if (status === 429) await sleep(BACK_OFF_MS);
      else if (++answered % 1_000 === 0) server.emptyLog();
    }
  };
  const sampler = async () => {
    while (answered < documents) {
      samples.push({ answered, ...(await readMemory(server)) });
      await sleep(SAMPLE_MS);
    }
  };
  console.log('| documents | heap used, lowest, MB | resident, highest, MB |\n| --- | --- | --- |');
  const printer = async () => {
    for (let part = 1; part <= SAMPLES; part += 1) {
      while (answered < (documents * part) / SAMPLES) await sleep(SAMPLE_MS / 2);
      printPart(samples, documents, part);
    }
  };
  try {
    await Promise.all([...Array.from({ length: CONNECTIONS }, worker), sampler(), printer()]);
  } catch (error) {
    await sleep(1_000);
    server.assertAlive();
    throw error;
  }
  console.log('\nResponses:\n');
  for (const [outcome, count] of [...outcomes].sort()) console.log(`- ${outcome}: ${count.toLocaleString('en')}`);
}

function printPart(samples, documents, part) {
  const isInPart = ({ answered }) =>
    answered > (documents * (part - 1)) / SAMPLES && answered <= (documents * part) / SAMPLES;
  const some = samples.filter(isInPart);
  const megabytes = (bytes) => (Number.isFinite(bytes) ? (bytes / 1e6).toFixed(0) : '–');
  const heap = Math.min(...some.map(({ heap }) => heap));
  const resident = Math.max(...some.map(({ resident }) => resident));
  const upTo = Math.round((documents * part) / SAMPLES).toLocaleString('en');
  console.log(`| ${upTo} | ${megabytes(heap)} | ${megabytes(resident)} |`);
}

/** The program's own metrics. The lowest of several readings is close to what a garbage collection leaves. */
async function readMemory(server) {
  const { text } = await send(server.port, { method: 'GET', path: '/metrics', headers: {}, body: '' });
  const metric = (name) => Number(new RegExp(`^${name} (\\S+)$`, 'm').exec(text)?.[1]);
  return { heap: metric('nodejs_heap_size_used_bytes'), resident: metric('process_resident_memory_bytes') };
}

/** Two single requests whose preparation or response would be out of proportion: how fast they are refused, and what they cost. */
async function sendHostile(server, { client, keys: [key] }) {
  // Every character of these names becomes six in JSON: the second document asks for 300 MB.
  await client.query('UPDATE pets SET name = repeat(chr(1), 255) WHERE id <= 100');
  const documents = {
    '100 aliases × a field named 20 times': worst('Hostile', 'pets(limit: 500)'),
    '100 aliases of one list × 20 names': `{ ${aliases('pets(limit: 100)')} } fragment F on Pet { ${aliased} }`,
  };
  const remaining = async () => Number((await post(server, key, '{ __typename }')).headers['x-ratelimit-remaining']);
  console.log(
    '\n| request | status | code | ms | charged | resident after, MB |\n| --- | --- | --- | --- | --- | --- |',
  );
  for (const [title, query] of Object.entries(documents)) {
    const before = await remaining();
    const startedAt = performance.now();
    try {
      const { status, text } = await post(server, key, query);
      const took = performance.now() - startedAt;
      const code = /"code":"(\w+)"/.exec(text.slice(0, 5_000))?.[1] ?? `${text.length} characters`;
      const { resident } = await readMemory(server);
      const charged = before - (await remaining());
      console.log(
        `| ${title} | ${status} | ${code} | ${took.toFixed(0)} | ${charged} | ${(resident / 1e6).toFixed(0)} |`,
      );
    } catch (error) {
      console.log(`| ${title} | – | ${error.message} | ${(performance.now() - startedAt).toFixed(0)} | – | – |`);
      await sleep(1_000);
      server.assertAlive();
    }
  }
}

main().catch((error) => {
  console.error(`memory: ${error.message}`);
  process.exitCode = 1;
});
