import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { WORKS } from './data/operations.mjs';
import { startGenerator } from './load/start-generator.mjs';
import { movePids, planCores } from './machine/cores.mjs';
import { describeMachine } from './machine/describe.mjs';
import { measureWork } from './measure-work.mjs';
import { openProxyStore, openStore } from './stores.mjs';

/** The flags between `node` and the program in `npm start`: every server is run with the same. */
function flagsOf(directory) {
  const { scripts } = JSON.parse(readFileSync(join(directory, 'package.json'), 'utf8'));
  return /\bnode((?: +--?\S+)*) +dist\/(?:bundle\/)?main\.js/.exec(scripts.start)?.[1].trim() ?? '';
}

const toFlags = (text) => text.split(/\s+/).filter((flag) => flag !== '');

/** Runs what the options ask for. Everything that it opens is closed when it returns or throws. */
export async function measureAll({ options, root, directory, signal }) {
  const say = (line) => console.error(line);
  const ours = resolve(options.ours ?? root);
  if (options.ours === undefined) build(root);
  const other = options.against && resolve(options.against.root ?? ours);
  const roots = [...new Set([ours, ...(other ? [other] : [])])];
  const flags = options.flags ?? flagsOf(ours);
  const cores = planCores();
  if (cores) movePids([process.pid], cores.load);
  else say('nothing is pinned: this needs Linux, taskset and two cores');
  const machine = describeMachine(cores, flags);
  say(`about ${Math.ceil(estimateMinutes(options))} minutes`);
  const generator = startGenerator(cores?.load);
  const results = [];
  let store;
  try {
    for (const mode of options.modes) {
      const plans = toPlans(options, mode);
      if (plans.length === 0) continue;
      signal.throwIfAborted();
      const keyCount = Math.max(...options.works.map((work) => WORKS[work].keys));
      const needs = {
        cores,
        directory,
        keyCount,
        roots,
        ours,
        names: [...new Set(plans.flatMap(({ names }) => names))],
      };
      store = await (mode === 'proxy' ? openProxyStore(needs) : openStore(needs));
      machine.postgres ??= store.version;
      const cellOf = (name) => toCell(name, mode);
      const run = { mode, options, cores, generator, directory, cellOf, store, signal, say };
      for (const plan of plans) {
        signal.throwIfAborted();
        results.push(await measureWork(plan, run));
      }
      await store.close();
      store = undefined;
    }
    return { machine, results };
  } finally {
    await generator.stop();
    await store?.close();
  }

  /** What a server needs to be started in a mode. */
  function toCell(name, mode) {
    const isOther = name === 'against';
    const ownRoot = isOther ? other : ours;
    const ownFlags = isOther ? (options.against.flags ?? options.flags ?? flagsOf(other)) : flags;
    return {
      mode,
      root: ownRoot,
      flags: toFlags(ownFlags),
      pool: options.pool,
      directory,
      env: isOther ? options.against.env : {},
      ...store.of(ownRoot),
    };
  }
}

/** Starting and stopping takes about two seconds, and what stands around a measurement one. */
function estimateMinutes(options) {
  const { modes, rounds, seconds, warmup } = options;
  const roundSeconds = modes
    .flatMap((mode) => toPlans(options, mode))
    .reduce((sum, { names, connections }) => sum + names.length * (2 + warmup + connections.length * (seconds + 1)), 0);
  return (rounds * roundSeconds) / 60;
}

/** The works to measure in a mode, each with whom and at how many connections. */
function toPlans({ works, comparedFor }, mode) {
  return works.map((work) => ({ work, ...comparedFor(mode, work) })).filter(({ names }) => names.length > 0);
}

function build(root) {
  const { status } = spawnSync(process.execPath, [join(root, 'scripts/build.mjs'), '--if-missing'], {
    stdio: ['ignore', 2, 2],
  });
  if (status !== 0) throw new Error('the build failed');
}
