// Growth: what a request costs as animals and keys become more, and memory and starts beside it. See README.md here, or --help.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { oneOf, toList, toNumber } from './arguments.mjs';
import { measureAnimals, SIZES } from './growth/animals.mjs';
import { measureKeys } from './growth/keys.mjs';
import { LEAST_REQUESTS, measureMemory } from './growth/memory.mjs';
import { measureStart } from './growth/start.mjs';
import { movePids, planCores } from './machine/cores.mjs';
import { describeMachine } from './machine/describe.mjs';
import { killAll, startServer } from './machine/processes.mjs';

const PARTS = { animals: measureAnimals, keys: measureKeys, memory: measureMemory, start: measureStart };

const HELP = `node bench/growth.mjs [options]   (after npm run build; Linux, since CPU times are read from /proc)

  --only animals,keys     parts: ${Object.keys(PARTS).join(', ')} (default: all of them)
  --sizes 1000,1000000    animals: sizes of the table (default: ${SIZES.join()})
  --connections N         animals: connections (default: 1)
  --rounds N              animals: how often each table is measured, in turns (default: 5)
  --seconds N             animals: length of one measurement (default: 1)
  --requests N            memory: requests, a multiple of ${LEAST_REQUESTS.toLocaleString('en')} (default: 1000000)
  --documents N           memory: how many of them have a document of their own (default: all)
  --starts N              start: starts on each database (default: 10)
  --flags "..."           flags of node for the program

BENCH_DATABASE_URL names the PostgreSQL server (default: postgres://postgres@127.0.0.1:5432/postgres); the run makes
databases of its own there and drops them.`;

const root = fileURLToPath(new URL('..', import.meta.url)).replace(/\/$/, '');
const directory = mkdtempSync(join(tmpdir(), 'animal-store-growth-'));
const cores = planCores();

/** @throws Error in one line for what cannot be */
function readOptions(args) {
  const { values } = parseArgs({
    args,
    options: {
      only: { type: 'string', default: Object.keys(PARTS).join() },
      sizes: { type: 'string', default: SIZES.join() },
      connections: { type: 'string', default: '1' },
      rounds: { type: 'string', default: '5' },
      seconds: { type: 'string', default: '1' },
      requests: { type: 'string', default: '1000000' },
      documents: { type: 'string' },
      starts: { type: 'string', default: '10' },
      flags: { type: 'string', default: '' },
      help: { type: 'boolean', default: false },
    },
  });
  const requests = toNumber('--requests', values.requests, LEAST_REQUESTS, 1e9);
  if (requests % LEAST_REQUESTS !== 0)
    throw new Error(`--requests must be a multiple of ${LEAST_REQUESTS}, got ${requests}`);
  return {
    help: values.help,
    parts: oneOf('--only', values.only, Object.keys(PARTS)),
    sizes: toList(values.sizes).map((text) => toNumber('--sizes', text, 1_000, 1e8)),
    connections: toNumber('--connections', values.connections, 1, 10_000),
    rounds: toNumber('--rounds', values.rounds, 1, 1_000),
    seconds: toNumber('--seconds', values.seconds, 0.1, 600),
    requests,
    documents: toNumber('--documents', values.documents ?? values.requests, 1, 1e9),
    starts: toNumber('--starts', values.starts, 1, 1_000),
    flags: values.flags.split(' ').filter(Boolean),
  };
}

/** A server on its core, which `place` moves its backends and helper threads away from. */
async function start(env, flags) {
  const args = [...flags, `${root}/dist/bundle/main.js`];
  const server = await startServer({ name: 'ours', args, env, core: cores?.server, directory });
  return { ...server, place: async (database) => cores && database.pinBackends(cores.backing) };
}

async function main() {
  const { help, parts, flags, ...options } = readOptions(process.argv.slice(2));
  if (help) {
    console.log(HELP);
    return;
  }
  if (cores) movePids([process.pid], cores.load);
  const { date, cpu, memory, node } = describeMachine(cores, '');
  console.log(`${date}, ${cpu}, ${memory}, Node ${node}`);
  for (const part of parts) {
    const report = await PARTS[part]({
      ...options,
      root,
      directory,
      start: (env, own = []) => start(env, [...flags, ...own]),
    });
    console.log(`\n${report}`);
  }
}

process.once('exit', () => {
  killAll();
  rmSync(directory, { recursive: true, force: true });
});
process.once('SIGINT', () => process.exit(130)).once('SIGTERM', () => process.exit(143));
main().catch((error) => {
  console.error(`growth: ${error.message}`);
  process.exitCode = 1;
});
