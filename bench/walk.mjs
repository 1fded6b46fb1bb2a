// Walks all animals in pages of 100 while others are added, and compares the last thousand pages with the first. It exits
// with 1 if their p99 is more than 1.2 times that of the first:
// node bench/walk.mjs [--program DIR] [--modes store,gateway] [--animals 1000000] [--added 200]
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { ANIMAL_COUNT } from './animals.mjs';
import { createDatabase } from './database.mjs';
import { send } from './load/load.mjs';
import { killAll, moveToCore, planCores } from './machine.mjs';
import { startProgram } from './servers.mjs';

const LIMIT = 100;
const COMPARED = 1_000;
const MAX_RATIO = 1.2;
const WALK = `query Walk($after: ID) { pets(limit: ${LIMIT}, after: $after) { id name categoryId status } }`;
const ADD = 'mutation Add { addPet(input: { name: "Rex", categoryId: 1, status: SOLD }) { id } }';

async function main() {
  const here = fileURLToPath(new URL('..', import.meta.url));
  const text = (value) => ({ type: 'string', default: value });
  const { values } = parseArgs({
    options: { program: text(here), modes: text('store,gateway'), animals: text('1000000'), added: text('200') },
  });
  const root = resolve(values.program);
  const count = Number(values.animals);
  const directory = mkdtempSync(join(tmpdir(), 'animal-store-bench-'));
  const cores = planCores();
  moveToCore(cores.load, [process.pid]);
  try {
    for (const mode of values.modes.split(',')) await measure(mode);
  } finally {
    killAll();
    rmSync(directory, { recursive: true, force: true });
  }

  async function measure(mode) {
    const database = await createDatabase(root, { cores, directory }, 2);
    try {
      await database.client.query(
        `INSERT INTO pets (name, category_id, status)
         SELECT 'Animal ' || n, n % 25, (ARRAY['available', 'pending', 'sold'])[1 + n % 3]
         FROM generate_series($1::int, $2::int) AS n`,
        [ANIMAL_COUNT + 1, count],
      );
      await database.client.query('VACUUM ANALYZE pets');
      const store = await startProgram(root, database.env, { core: cores.server, directory });
      const upstream = { UPSTREAM_URL: `http://127.0.0.1:${store.port}/v1` };
      const isGateway = mode === 'gateway';
      const { port } = isGateway ? await startProgram(root, upstream, { core: cores.server, directory }) : store;
      const [walker, adder] = database.keys;
      await database.pin(cores.load);
      let isOver = false;
      const additions = addSteadily(port, adder, Number(values.added), () => isOver);
      // V8 compiles the program while it warms up.
      await walk(port, walker, LIMIT * Math.min(2 * COMPARED, count / LIMIT));
      const startedAt = performance.now();
      const pages = await walk(port, walker, count);
      const seconds = (performance.now() - startedAt) / 1_000;
      isOver = true;
      const addedPerSecond = await additions;
      const [first, last] = [pages.slice(0, COMPARED), pages.slice(-COMPARED)].map(toPercentiles);
      console.log(
        `${mode}: ${count} animals, each once, in ${pages.length} pages and ${seconds.toFixed(0)} s, beside ` +
          `${addedPerSecond.toFixed(0)} additions a second`,
      );
      for (const [name, { p50, p99 }] of Object.entries({ first, last }))
        console.log(`  the ${name} ${COMPARED} pages: p50 ${p50.toFixed(2)} ms, p99 ${p99.toFixed(2)} ms`);
      console.log(`  last / first: p50 ${(last.p50 / first.p50).toFixed(2)}, p99 ${(last.p99 / first.p99).toFixed(2)}`);
      if (last.p99 / first.p99 > MAX_RATIO) process.exitCode = 1;
    } finally {
      killAll();
      await database.close();
    }
  }
}

/**
 * Walks the animals up to an id, which must have each id once.
 * @returns the time of each page, in milliseconds
 */
async function walk(port, key, until) {
  const times = [];
  for (let id = 0; id < until;) {
    const startedAt = performance.now();
    const { pets } = await ask(port, key, WALK, { after: id === 0 ? undefined : String(id) });
    times.push(performance.now() - startedAt);
    for (const pet of pets) if (Number(pet.id) !== ++id) throw new Error(`the animal ${id} is missing or came twice`);
    if (pets.length < LIMIT && id < until) throw new Error(`the page after ${id} is not full`);
  }
  return times;
}

/**
 * Adds animals at a steady pace.
 * @returns how many a second it has added
 */
async function addSteadily(port, key, perSecond, isOver) {
  const additions = [];
  const startedAt = performance.now();
  for (; !isOver(); await sleep(1)) {
    const due = ((performance.now() - startedAt) / 1_000) * perSecond;
    while (additions.length < due) additions.push(ask(port, key, ADD));
  }
  await Promise.all(additions);
  return additions.length / ((performance.now() - startedAt) / 1_000);
}

async function ask(port, key, query, variables) {
  const headers = { 'content-type': 'application/json', authorization: `Bearer ${key}` };
  const answer = await send(port, {
    method: 'POST',
    path: '/graphql',
    headers,
    body: JSON.stringify({ query, variables }),
  });
  const { data, errors } = JSON.parse(answer.text);
  if (errors) throw new Error(`${answer.status} ${answer.text.slice(0, 300)}`);
  return data;
}

function toPercentiles(times) {
  const sorted = times.toSorted((a, b) => a - b);
  const at = (share) => sorted[Math.floor(sorted.length * share)];
  return { p50: at(0.5), p99: at(0.99) };
}

main().catch((error) => {
  console.error(`walk: ${error.stack}`);
  process.exitCode = 1;
});
