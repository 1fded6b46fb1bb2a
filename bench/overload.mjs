// Overload: asks three times what the server can do, at a fixed rate, and says what became of every request.
// node bench/overload.mjs [--work W3] [--factor 3] [--seconds 15] [--connections 2500] [--pool 10]
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { DIALECTS } from './data/dialects.mjs';
import { createPicker, operationsOf, WORKS } from './data/operations.mjs';
import { askAsFastAsAnswered, askAtRate } from './load/open-loop.mjs';
import { createRequests } from './load/requests.mjs';
import { moveHelperThreads, movePids, planCores } from './machine/cores.mjs';
import { createDatabase } from './machine/database.mjs';
import { killAll, startServer } from './machine/processes.mjs';

const root = fileURLToPath(new URL('..', import.meta.url)).replace(/\/$/, '');
const { values } = parseArgs({
  options: {
    work: { type: 'string', default: 'W3' },
    factor: { type: 'string', default: '3' },
    seconds: { type: 'string', default: '15' },
    connections: { type: 'string', default: '2500' },
    pool: { type: 'string', default: '10' },
  },
});
const seconds = Number(values.seconds);
const connections = Number(values.connections);

/** What the issue asks for: milliseconds. */
const ACCEPTED_P99_MS = 1_000;
const REFUSED_P99_MS = 100;
/** A burst finds a program whose way to refuse was never needed before. */
const ONSET_MS = 1_000;
const REST_MS = 5_000;
const CAPACITY_CONNECTIONS = 64;
/** Many, but every one waits for its answer before it asks again: nobody is to be refused. */
const BUSY_CONNECTIONS = 256;

function createNextRequest(work, keys) {
  const { heads, rests } = createRequests(operationsOf(work), DIALECTS.animalStore, keys);
  const pick = createPicker(work, 1);
  let sent = 0;
  return () => heads[sent++ % heads.length] + rests[pick()];
}

const milliseconds = (value) => `${value.toFixed(value < 10 ? 1 : 0)} ms`;
const show = ({ count, p50, p99, max }) =>
  `${count} answers, p50 ${milliseconds(p50)}, p99 ${milliseconds(p99)}, longest ${milliseconds(max)}`;

async function main() {
  const work = WORKS[values.work];
  const cores = planCores();
  const directory = mkdtempSync(join(tmpdir(), 'animal-store-overload-'));
  const database = await createDatabase(root, work.keys);
  try {
    if (cores) movePids([process.pid], cores.load);
    const server = await startServer({
      name: 'ours',
      args: [`${root}/dist/bundle/main.js`],
      env: { DATABASE_URL: database.url, DATABASE_POOL: values.pool },
      core: cores?.server,
      directory,
    });
    const nextRequest = createNextRequest(work, database.keys);
    const { port } = server;
    await askAsFastAsAnswered({ port, seconds: 3, connections: CAPACITY_CONNECTIONS, nextRequest });
    const place = async () => {
      if (!cores) return;
      moveHelperThreads(server.pid, cores.backing);
      await database.pinBackends(cores.backing);
    };
    await place();
    const capacity = await askAsFastAsAnswered({ port, seconds: 4, connections: CAPACITY_CONNECTIONS, nextRequest });
    console.log(`work           ${values.work}: ${work.title}`);
    console.log(
      `capacity       ${Math.round(capacity.perSecond)}/s at ${CAPACITY_CONNECTIONS} connections, ${show(capacity.latency)}`,
    );

    const busy = await askAsFastAsAnswered({ port, seconds: 4, connections: BUSY_CONNECTIONS, nextRequest });
    console.log(
      `busy           ${Math.round(busy.perSecond)}/s at ${BUSY_CONNECTIONS} connections, ${show(busy.latency)}; refused ${busy.other}`,
    );

    const rate = capacity.perSecond * Number(values.factor);
    await place();
    const flood = await askAtRate({ port, rate, seconds, connections, nextRequest, onsetMs: ONSET_MS });
    console.log(
      `offered        ${Math.round(rate)}/s for ${seconds} s over ${connections} connections: ${flood.due} requests`,
    );
    for (const [phase, { accepted, refused }] of [
      ['first second', flood.onset],
      ['after that', flood.steady],
    ]) {
      console.log(`${phase.padEnd(15)}accepted ${show(accepted)}`);
      console.log(`${''.padEnd(15)}refused  ${show(refused)}`);
    }
    const { accepted, refused } = flood.steady;
    console.log(
      `               accepted ${Math.round(accepted.count / (seconds - ONSET_MS / 1_000))}/s; 503 without Retry-After: ${flood.withoutRetryAfter}`,
    );
    console.log(
      `other answers  ${flood.other}, unanswered ${flood.unanswered}, broken connections ${flood.failures}; sent ${milliseconds(flood.latestMs)} late at the most`,
    );

    await sleep(REST_MS);
    const after = await askAtRate({ port, rate: capacity.perSecond / 2, seconds: 3, connections: 256, nextRequest });
    console.log(
      `5 s later      at half the capacity: ${show(after.steady.accepted)}; refused ${after.steady.refused.count}, other ${after.other}`,
    );
    const lost = flood.other + flood.unanswered + flood.failures + flood.withoutRetryAfter;
    const isFine =
      busy.other === 0 &&
      accepted.p99 < ACCEPTED_P99_MS &&
      refused.p99 < REFUSED_P99_MS &&
      lost === 0 &&
      after.steady.refused.count + after.other + after.unanswered + after.failures === 0;
    console.log(isFine ? 'holds' : 'DOES NOT HOLD');
    process.exitCode = isFine ? 0 : 1;
    await server.stop();
  } finally {
    killAll();
    await database.drop();
    rmSync(directory, { recursive: true, force: true });
  }
}

process.once('exit', killAll);
await main();
