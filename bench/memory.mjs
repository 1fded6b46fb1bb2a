// Sends documents that are all different, some of the worst kind, to a server with a small heap, and reports its memory
// over time: node bench/memory.mjs [--documents 1000000] [--heap 256] [--keys 20] [--program DIR]
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

const CONNECTIONS = 32;
const PARTS = 10;
const SAMPLE_MS = 500;
/** How long a connection waits after a 429. The refused document does not count. */
const BACK_OFF_MS = 100;

/** A fragment that names a field 20 times, under 100 aliases: 2.5 kB that a naive cache holds as 100 times their size. */
const worst = (title, field) => {
  const aliases = Array.from({ length: 100 }, (_, index) => `a${index}:${field}{...F}`);
  return `query ${title} { ${aliases.join(' ')} } fragment F on Pet { ${'name '.repeat(20)}}`;
};

/** A document that differs from all others: of ten, six are ordinary, two are invalid and two are of the worst kind. */
function toDocument(index) {
  const kind = index % 10;
  if (kind < 6) return ['ordinary', `query Ordinary${index} { a${index}: pets(limit: 3) { id name } }`];
  if (kind < 8) return ['invalid', `{ pets(limit: 3) { id nothing${index} } }`];
  if (kind === 8) return ['worst', worst(`Worst${index}`, 'pets(limit: 1)')];
  return ['worst, free of charge', worst(`Worst${index}`, 'pets(limit: 500)')];
}

async function main() {
  const text = (value) => ({ type: 'string', default: value });
  const here = fileURLToPath(new URL('..', import.meta.url));
  const { values } = parseArgs({
    options: { documents: text('1000000'), heap: text('256'), keys: text('20'), program: text(here) },
  });
  const directory = mkdtempSync(join(tmpdir(), 'animal-store-bench-'));
  const cores = planCores();
  const root = resolve(values.program);
  const flags = [`--max-old-space-size=${values.heap}`];
  for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, killAll);
  let database;
  try {
    database = await createDatabase(root, { cores, directory }, Number(values.keys));
    const server = await startProgram(root, database.env, { core: cores.server, directory, flags });
    await sendDocuments(server, database.keys, Number(values.documents));
  } finally {
    killAll();
    await database?.close();
    rmSync(directory, { recursive: true, force: true });
  }
}

/** Sends documents until so many were answered, and prints the memory meanwhile and what was answered. */
async function sendDocuments(server, keys, documents) {
  const outcomes = new Map();
  let sent = 0;
  let answered = 0;
  const worker = async () => {
    while (answered < documents) {
      const index = sent++;
      const [kind, query] = toDocument(index);
      const headers = { 'content-type': 'application/json', authorization: `Bearer ${keys[index % keys.length]}` };
      const request = { method: 'POST', path: '/graphql', headers, body: JSON.stringify({ query }) };
      const { status, text } = await send(server.port, request);
      const outcome = `${kind}: ${status} ${/"code":"(\w+)"/.exec(text)?.[1] ?? ''}`;
      outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + 1);
      if (status === 429) await sleep(BACK_OFF_MS);
      else answered += 1;
    }
  };
  const sampler = async () => {
    console.log('| documents | heap used, lowest, MB | resident, highest, MB |\n| --- | --- | --- |');
    for (let part = 1; part <= PARTS; part += 1) {
      const samples = [];
      do {
        await sleep(SAMPLE_MS);
        samples.push(await readMemory(server));
        server.emptyLog();
      } while (answered < (documents * part) / PARTS);
      const heap = Math.min(...samples.map(({ heap }) => heap));
      const resident = Math.max(...samples.map(({ resident }) => resident));
      console.log(`| ${answered} | ${(heap / 1e6).toFixed(0)} | ${(resident / 1e6).toFixed(0)} |`);
    }
  };
  try {
    await Promise.all([...Array.from({ length: CONNECTIONS }, worker), sampler()]);
  } catch (error) {
    await sleep(1_000);
    server.assertAlive();
    throw error;
  }
  console.log(`\nResponses:\n${[...outcomes].map(([outcome, count]) => `\n- ${outcome}: ${count}`).join('')}`);
}

/** The program's own metrics. The lowest of several readings is close to what a garbage collection leaves. */
async function readMemory(server) {
  const { text } = await send(server.port, { method: 'GET', path: '/metrics', headers: {}, body: '' });
  const metric = (name) => Number(new RegExp(`^${name} (\\S+)$`, 'm').exec(text)?.[1]);
  return { heap: metric('nodejs_heap_size_used_bytes'), resident: metric('process_resident_memory_bytes') };
}

main().catch((error) => {
  console.error(`memory: ${error.message}`);
  process.exitCode = 1;
});
