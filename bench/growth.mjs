// Growth: what a request costs as animals and keys become more, what memory does over many different requests, and how long
// a start takes. Usage, after npm run build:
//   node bench/growth.mjs [--only animals|keys|memory|start] [--sizes 1000,1000000] [--connections 1] [--seconds 2]
//                         [--requests 1000000] [--documents 1000000] [--starts 10] [--flags "of node"]
// It needs a PostgreSQL server, as the benchmark does (BENCH_DATABASE_URL). Linux only: CPU times are read from /proc.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { measureAnimals } from './growth/animals.mjs';
import { measureKeys } from './growth/keys.mjs';
import { measureMemory } from './growth/memory.mjs';
import { measureStart } from './growth/start.mjs';
import { movePids, planCores } from './machine/cores.mjs';
import { describeMachine } from './machine/describe.mjs';
import { killAll, startServer } from './machine/processes.mjs';

const PARTS = { animals: measureAnimals, keys: measureKeys, memory: measureMemory, start: measureStart };

const root = fileURLToPath(new URL('..', import.meta.url)).replace(/\/$/, '');
const { values } = parseArgs({
  options: {
    only: { type: 'string', default: Object.keys(PARTS).join() },
    sizes: { type: 'string' },
    connections: { type: 'string', default: '1' },
    seconds: { type: 'string', default: '2' },
    requests: { type: 'string', default: '1000000' },
    documents: { type: 'string' },
    starts: { type: 'string', default: '10' },
    flags: { type: 'string', default: '' },
  },
});
const requests = Number(values.requests);
const directory = mkdtempSync(join(tmpdir(), 'animal-store-growth-'));
const cores = planCores();

/** A server on its core, which `place` moves its backends and helper threads away from. */
async function start(env, flags = []) {
  const args = [...values.flags.split(' ').filter(Boolean), ...flags, `${root}/dist/main.js`];
  const server = await startServer({ name: 'ours', args, env, core: cores?.server, directory });
  return { ...server, place: async (database) => cores && database.pinBackends(cores.backing) };
}

async function main() {
  if (cores) movePids([process.pid], cores.load);
  const { date, cpu, memory, node } = describeMachine(cores, '');
  console.log(`${date}, ${cpu}, ${memory}, Node ${node}`);
  for (const part of values.only.split(',')) {
    const measure = PARTS[part];
    if (!measure) throw new Error(`--only takes ${Object.keys(PARTS).join(', ')}; got ${part}`);
    const report = await measure({
      root,
      directory,
      start,
      sizes: values.sizes?.split(',').map(Number),
      connections: Number(values.connections),
      seconds: Number(values.seconds),
      starts: Number(values.starts),
      requests,
      documents: Number(values.documents ?? requests),
    });
    console.log(`\n${report}`);
  }
}

process.once('exit', () => {
  killAll();
  rmSync(directory, { recursive: true, force: true });
});
process.once('SIGINT', () => process.exit(130)).once('SIGTERM', () => process.exit(143));
await main();
