import { setTimeout as sleep } from 'node:timers/promises';
import { WORKS } from './data/operations.mjs';
import { startServer } from './machine/processes.mjs';
import { SERVERS } from './servers/registry.mjs';

const WARM_CONNECTIONS = 32;
/** Before a measurement with another number of connections. */
const REWARM_MS = 1_000;
/** Nobody's: the request is as long as with a key, and is answered only where nobody looks at it. */
const UNKNOWN_KEY = `pets_${'0'.repeat(38)}`;
/** When, after that, the connections to PostgreSQL are there and can be moved to their core. */
const CONNECTED_MS = 400;

/**
 * Measures one work in one mode. In each round every server is started anew, warmed up and measured, in turns, with no
 * other beside it. Anew, because two processes of the same program may differ by a tenth for as long as they live; and
 * without a pause: when all were kept and those not measured were stopped (SIGSTOP), the one that was started first came
 * out up to a fifth slower than the same build started second.
 * @param plan - `{ work, names, connections }`: whom, and at how many connections
 * @param run - `{ mode, options, cores, generator, directory, cellOf, store, signal, say }`
 * @returns `{ mode, work, servers: Map(name → { failure?, byConnections: Map(count → figures of each round) }) }`
 */
export async function measureWork({ work, names, connections }, run) {
  const { mode, options, signal, say } = run;
  const { rounds } = options;
  const servers = new Map(names.map((name) => [name, emptyResult(name, connections)]));
  for (let round = 0; round < rounds; round += 1) {
    for (const name of turnsOf(names, round)) {
      signal.throwIfAborted();
      const result = servers.get(name);
      // What fails is out of this work, and the others go on.
      if (result.failure !== undefined) continue;
      try {
        await measureServer(name, { ...run, work, connections, round }, (count, figures) => {
          result.byConnections.get(count).push({ round, ...figures });
          say(`${mode} ${work} ×${count} ${round + 1}/${rounds} ${name.padEnd(13)} ${inShort(figures)}`);
        });
      } catch (error) {
        signal.throwIfAborted();
        const { isOptional, hint } = SERVERS[name];
        // Not even what it answered rightly before is worth anything then.
        for (const figures of result.byConnections.values()) figures.length = 0;
        result.failure = isOptional ? `${hint} (${error.message.split('\n')[0]})` : error.message;
        say(`${mode} ${work} ${name}: ${isOptional ? 'left out' : 'FAILED'}: ${result.failure}`);
      }
    }
  }
  return { mode, work, servers };
}

function emptyResult(name, connections) {
  return {
    isOptional: SERVERS[name].isOptional === true,
    byConnections: new Map(connections.map((count) => [count, []])),
  };
}

async function measureServer(
  name,
  { work, connections, round, mode, options, cores, generator, directory, cellOf, store },
  onFigures,
) {
  const cell = cellOf(name);
  const { launch, dialect, isKeyUnknown } = SERVERS[name];
  const { args, env } = launch(cell);
  await store.reset();
  const server = await startServer({ name, args, env: { ...env, ...cell.env }, core: cores?.server, directory });
  const about = {
    server: `${mode} ${name} ${server.pid}`,
    work,
    dialect,
    keys: isKeyUnknown ? [UNKNOWN_KEY] : cell.keys.slice(0, WORKS[work].keys),
    port: server.port,
    pid: server.pid,
    cores,
  };
  let added = 0;
  const measure = async (slot) => {
    const measured = generator.measure({ ...about, ...slot });
    const [figures] = await Promise.all([measured, sleep(CONNECTED_MS).then(() => store.pinConnections())]);
    await server.assertAlive();
    server.emptyLog();
    added += figures.counts.added;
    return figures;
  };
  try {
    // Every round asks in another order, the same for all.
    const seed = round + 1;
    await measure({ connections: WARM_CONNECTIONS, warmMs: 0, measureMs: options.warmup * 1_000, seed });
    for (const count of connections) {
      const slot = { connections: count, warmMs: REWARM_MS, measureMs: options.seconds * 1_000, seed };
      onFigures(count, await measure(slot));
    }
  } finally {
    await server.stop();
  }
  await store.assertStored(added);
}

/** There and back again: nobody always runs after the same other. */
function turnsOf(names, round) {
  return round % 2 === 0 ? names : [...names].reverse();
}

function inShort({ perSecond, p50, p99, cpuMicros, serverBusy, loadBusy, foreign }) {
  const percent = (share) => `${Math.round(share * 100)} %`;
  const busy = `busy: server ${percent(serverBusy)}, load ${percent(loadBusy)}, others on the server's core ${percent(foreign)}`;
  return `${perSecond.toFixed(0).padStart(6)}/s  p50 ${p50.toFixed(2)}  p99 ${p99.toFixed(2)} ms  ${cpuMicros.toFixed(0)} µs CPU  (${busy})`;
}
