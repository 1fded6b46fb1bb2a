// 1,000 lookups by createPetClient beside one request for each, over as many connections, in one run: node bench/pet-client.mjs
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Pool } from 'undici';
import { createPetClient } from 'animal-store-client';
import { ANIMALS } from './data/animals.mjs';
import { createRandom } from './data/operations.mjs';
import { cpuOf, HAS_PROC, planCores } from './machine/cores.mjs';
import { createDatabase } from './machine/database.mjs';
import { killAll, startServer } from './machine/processes.mjs';
import { median } from './report/statistics.mjs';

const root = fileURLToPath(new URL('..', import.meta.url));
const LOOKUPS = 1_000;
const WARM_UP = 10;
const ROUNDS = 15;
const CONNECTIONS = [1, 4, 16];
const DOCUMENT = 'query LookUp($id: ID!) { pet(id: $id) { id name categoryId status } }';

/** Every contender: `load(ids)` gives the animals in their order, over `connections` kept-alive connections. */
const CONTENDERS = {
  'one request for each': ({ origin, key, connections }) => {
    const pool = new Pool(origin, { connections });
    const headers = { Authorization: `Bearer ${key}`, 'Content-Type': 'application/json', Accept: 'application/json' };
    const load = async (id) => {
      const body = JSON.stringify({ query: DOCUMENT, variables: { id } });
      const answer = await pool.request({ path: '/graphql', method: 'POST', headers, body });
      return (await answer.body.json()).data.pet;
    };
    return { load: (ids) => Promise.all(ids.map(load)), close: () => pool.destroy() };
  },
  createPetClient: ({ origin, key, connections }) => {
    const client = createPetClient({ url: `${origin}/graphql`, key, concurrency: connections });
    return { load: (ids) => Promise.all(ids.map((id) => client.load(id))), close: () => client.close() };
  },
};

async function main() {
  const directory = mkdtempSync(join(tmpdir(), 'animal-store-bench-'));
  const database = await createDatabase(root, 1);
  process.once('exit', killAll);
  try {
    const cores = planCores();
    const server = await startServer({
      name: 'ours',
      args: [`${root}/dist/bundle/main.js`],
      env: { DATABASE_URL: database.url },
      core: cores?.server,
      directory,
    });
    const origin = `http://127.0.0.1:${server.port}`;
    const random = createRandom(7);
    console.log(`${LOOKUPS} lookups of random animals, ${ROUNDS} rounds in turns, medians\n`);
    console.log(
      '| connections | contender            | ms     | lookups/s | round trips | server CPU ms | ratio (lookups/s) |',
    );
    console.log(
      '| ----------- | -------------------- | ------ | --------- | ----------- | ------------- | ----------------- |',
    );
    for (const connections of CONNECTIONS) {
      const runs = Object.entries(CONTENDERS).map(([name, open]) => ({
        name,
        contender: open({ origin, key: database.keys[0], connections }),
        rounds: [],
      }));
      for (let round = -WARM_UP; round < ROUNDS; round += 1) {
        for (const { contender, rounds } of round % 2 === 0 ? runs : [...runs].reverse()) {
          const ids = chooseIds(random);
          const figures = await measure(contender, ids, server.pid, origin);
          if (round >= 0) rounds.push(figures);
        }
      }
      report(connections, runs);
      for (const { contender } of runs) await contender.close();
    }
    await server.stop();
  } finally {
    killAll();
    await database.drop();
    rmSync(directory, { recursive: true, force: true });
  }
}

/** So many different ids, in no order. */
function chooseIds(random) {
  const ids = new Set();
  while (ids.size < LOOKUPS) ids.add(String(1 + random(ANIMALS.length)));
  return [...ids];
}

async function measure(contender, ids, pid, origin) {
  const tripsBefore = await countRoundTrips(origin);
  const cpuBefore = HAS_PROC ? cpuOf(pid) : Number.NaN;
  const start = performance.now();
  const pets = await contender.load(ids);
  const ms = performance.now() - start;
  const cpuMs = HAS_PROC ? (cpuOf(pid) - cpuBefore) * 1_000 : Number.NaN;
  ids.forEach((id, index) => {
    if (pets[index]?.name !== ANIMALS[id - 1].name) throw new Error(`a wrong answer for the animal ${id}`);
  });
  return { ms, cpuMs, trips: (await countRoundTrips(origin)) - tripsBefore };
}

/** The requests of /graphql that the server has answered. */
async function countRoundTrips(origin) {
  const text = await (await fetch(`${origin}/metrics`)).text();
  const counts = text.matchAll(/^http_server_request_duration_seconds_count\{http_route="\/graphql".*\} (\d+)$/gm);
  return [...counts].reduce((sum, [, count]) => sum + Number(count), 0);
}

function report(connections, runs) {
  const [{ rounds: baseline }] = runs;
  for (const { name, rounds } of runs) {
    const ms = median(rounds.map((round) => round.ms));
    const ratio = median(rounds.map((round, index) => baseline[index].ms / round.ms));
    const cells = [
      String(connections).padEnd(11),
      name.padEnd(20),
      ms.toFixed(1).padStart(6),
      ((LOOKUPS / ms) * 1_000).toFixed(0).padStart(9),
      median(rounds.map(({ trips }) => trips))
        .toFixed(0)
        .padStart(11),
      // The system counts CPU time in hundredths of a second: a mean says more than a median.
      (rounds.reduce((sum, { cpuMs }) => sum + cpuMs, 0) / rounds.length).toFixed(0).padStart(13),
      ratio.toFixed(1).padStart(17),
    ];
    console.log(`| ${cells.join(' | ')} |`);
  }
}

main().catch((error) => {
  console.error(`bench: ${error.message}`);
  process.exitCode = 1;
});
