// Runs the program in a heap of 256 MB under those callers of fairness.mjs at once whose bodies or headers are costly to
// read, checks every response to honest clients, and measures what is left to them:
// node bench/soak.mjs [--program DIR] [--modes server,proxy] [--minutes 10] [--callers REGEXP]
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { animal, list } from './animals.mjs';
import { CALLERS, MODES } from './attackers.mjs';
import { holdRequests, runWrk, send, writeRequests } from './load/load.mjs';
import { killAll, moveToCore, planCores } from './machine.mjs';
import { toRequests } from './requests.mjs';
import { startProgram } from './servers.mjs';

const HONEST = 4;
const CONNECTIONS = 32;
const MAX_OLD_SPACE_MB = 256;
const COSTLY_TO_READ = 'megabyte|same without|members|never end|white space';

async function main() {
  const text = (value) => ({ type: 'string', default: value });
  const here = fileURLToPath(new URL('..', import.meta.url));
  const { values } = parseArgs({
    options: { program: text(here), modes: text('server,proxy'), minutes: text('10'), callers: text(COSTLY_TO_READ) },
  });
  const directory = mkdtempSync(join(tmpdir(), 'animal-store-bench-'));
  const cores = planCores();
  moveToCore(cores.load, [process.pid]);
  try {
    for (const mode of values.modes.split(',')) await soak(mode);
  } finally {
    killAll();
    rmSync(directory, { recursive: true, force: true });
  }

  async function soak(mode) {
    const root = resolve(values.program);
    const backend = await MODES[mode](root, { cores, directory });
    const flags = [`--max-old-space-size=${MAX_OLD_SPACE_MB}`];
    const server = await startProgram(root, backend.env, { core: cores.server, directory, flags });
    const keys = await backend.getKeys();
    // In front of another store, a key that has been accepted before need not wait until others of its address are tried.
    await send(server.port, toRequests('W1', 'apollo', keys.honest)[0]);
    const honest = join(directory, 'honest');
    writeRequests(honest, toRequests('W1', 'apollo', keys.honest));
    const load = (seconds) => runWrk(server.port, honest, CONNECTIONS, seconds, cores.load);
    await load(5);
    const alone = await load(20);
    const seconds = Math.round(Number(values.minutes) * 60);
    const callers = CALLERS.filter(
      ({ name, metricsPort }) => metricsPort === undefined && new RegExp(values.callers).test(name),
    );
    const attacks = callers.map((caller, index) => {
      const file = join(directory, `attack-${index}`);
      writeRequests(file, caller.toRequests(keys), caller.pipelined);
      if (caller.isUnfinished) return holdRequests(server.port, file, caller.connections, seconds);
      return runWrk(server.port, file, caller.connections, seconds, cores.load, { isUnchecked: true, isNice: true });
    });
    const counts = { right: 0, refused: 0 };
    const wrong = [];
    let isOver = false;
    const clients = Array.from({ length: HONEST }, async (_, index) => {
      for (let n = index; !isOver && wrong.length < 20; n += HONEST)
        await check(server.port, keys.honest, n, counts, wrong);
    });
    console.log(`${mode}: alone ${perSecond(alone).toFixed(0)} requests a second`);
    console.log(`${mode}: minute, resident MB, heap MB, right, refused with Retry-After, wrong; share and p99, ms`);
    for (let second = 60; second <= seconds && wrong.length < 20; second += 60) {
      const beside = await load(58);
      server.assertAlive();
      const share = (perSecond(beside) / perSecond(alone)).toFixed(2);
      const { resident, heap } = await readMemory(server);
      console.log(
        `${mode}: ${second / 60}, ${resident}, ${heap}, ${counts.right}, ${counts.refused}, ${wrong.length}; ${share}, ${(beside.p99 / 1_000).toFixed(0)}`,
      );
    }
    isOver = true;
    await Promise.all([...clients, ...attacks]);
    (await Promise.all(attacks)).forEach(({ statuses }, index) =>
      console.log(`${callers[index].name}: ${JSON.stringify(statuses)}`),
    );
    server.assertAlive();
    await server.stop();
    await backend.close();
    if (wrong.length > 0) throw new Error(`wrong responses:\n${wrong.join('\n')}`);
  }
}

function perSecond({ requests, failed, duration }) {
  return (requests - failed) / (duration / 1e6);
}

/** Sends a list or three lookups, and checks the animals and the limits of the key. */
async function check(port, key, n, counts, wrong) {
  const ids = [1, 2, 3].map((i) => 1 + ((n * 7 + i * 991) % 10_000));
  const limit = 1 + (n % 100);
  const [query, expected] =
    n % 2 === 0
      ? [`{ pets(limit: ${limit}) { id name } }`, { pets: list(limit).map(({ id, name }) => ({ id, name })) }]
      : [
          `query ($a: ID!, $b: ID!, $c: ID!) { a: pet(id: $a) { id name } b: pet(id: $b) { id name } c: pet(id: $c) { id name } }`,
          Object.fromEntries(ids.map((id, i) => ['abc'[i], { id: animal(id).id, name: animal(id).name }])),
        ];
  const headers = { 'content-type': 'application/json', authorization: `Bearer ${key}` };
  const body = JSON.stringify({ query, variables: { a: ids[0], b: ids[1], c: ids[2] } });
  try {
    const response = await send(port, { method: 'POST', path: '/graphql', headers, body });
    if (response.status === 503 && response.headers.get('retry-after')) {
      counts.refused += 1;
      await sleep(50);
      return;
    }
    const data = response.status === 200 ? JSON.parse(response.text).data : undefined;
    const isRight = JSON.stringify(data) === JSON.stringify(expected);
    if (isRight && response.headers.get('x-ratelimit-limit') === '2000000000') counts.right += 1;
    else wrong.push(`${response.status} ${query.slice(0, 40)} ${response.text.slice(0, 300)}`);
  } catch (error) {
    wrong.push(`${error.message} ${error.cause?.code ?? ''}`);
  }
}

async function readMemory({ pid, port }) {
  const resident = Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))[1]) / 1_024;
  const { text } = await send(port, { method: 'GET', path: '/metrics', headers: {}, body: '' });
  const heap = Number(/^nodejs_heap_size_used_bytes (\S+)/m.exec(text)?.[1]) / 1_048_576;
  return { resident: resident.toFixed(0), heap: heap.toFixed(0) };
}

main().catch((error) => {
  console.error(`soak: ${error.stack}`);
  process.exitCode = 1;
});
