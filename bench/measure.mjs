import { resolve } from 'node:path';
import { createDatabase } from './database.mjs';
import { checkServer, measure, writeRequests } from './load/load.mjs';
import { FORMS, toRequests, WORKS } from './requests.mjs';
import { startPeer, startProgram } from './servers.mjs';

/** Seconds of load before each measurement, after the warm-up. */
const REWARM = 1;

const isOwn = (name) => name === 'ours' || name === 'against';
const say = (line) => console.error(line);

/**
 * Runs what the options ask for.
 * @returns `rows`: for each mode and row, the figures of each server by round; `failures`: one line each
 */
export async function measureAll({ root, options, cores, directory, signal }) {
  const run = { options, cores, directory, signal, failures: [] };
  const rows = [];
  let version;
  for (const mode of options.modes) {
    const backends = await openBackends(mode, root, run);
    version ??= backends.version;
    try {
      for (const work of new Set(options.rows.map((row) => row.work)))
        rows.push(...(await measureWork(mode, work, backends, run)));
    } finally {
      await backends.close();
    }
  }
  return { rows, failures: run.failures, version };
}

/** What is behind the servers: a database for each build, since builds may migrate differently, or one upstream. */
async function openBackends(mode, root, run) {
  const { against } = run.options;
  const otherRoot = resolve(against?.root ?? root);
  const ours = await (mode === 'proxy' ? openUpstream(run) : createDatabase(root, run));
  const other = mode === 'store' && otherRoot !== root ? await createDatabase(otherRoot, run) : ours;
  return {
    of: (name) =>
      name === 'against' ? { ...other, root: otherRoot, env: { ...other.env, ...against.env } } : { ...ours, root },
    version: ours.version,
    close: () => Promise.all([...new Set([ours, other])].map((backend) => backend.close())),
  };
}

/** A store that answers REST from memory; see `peers/rest-store.mjs`. */
async function openUpstream(run) {
  const server = await startPeer('rest-store', {}, run, run.cores.load);
  const countAll = async () => Number(await (await fetch(`http://127.0.0.1:${server.port}/added`)).text());
  let before = 0;
  return {
    keys: ['bench-key-0000'],
    env: { UPSTREAM_URL: `http://127.0.0.1:${server.port}/v1` },
    pin: () => Promise.resolve(),
    removeAdditions: async () => (before = await countAll()),
    countAdditions: async () => (await countAll()) - before,
    close: () => server.stop(),
  };
}

/** Measures all rows of one work: in each round, every server is started, warmed up, measured and stopped, in turns. */
async function measureWork(mode, work, backends, run) {
  const { options, signal, failures } = run;
  const rows = options.rows.filter((row) => row.work === work).map((row) => ({ mode, ...row, servers: {} }));
  for (let round = 0; round < options.rounds; round += 1) {
    for (const name of inTurns(options.servers, round)) {
      signal.throwIfAborted();
      const ownRows = rows.filter(
        ({ form, servers }) => !servers[name]?.failed && (isOwn(name) || !FORMS[form].ownOnly),
      );
      if (ownRows.length === 0) continue;
      for (const row of ownRows) row.servers[name] ??= { figures: [] };
      let current;
      try {
        await measureServer(name, inTurns(ownRows, round), backends.of(name), run, (row, figures) => {
          current = row;
          if (figures === undefined) return;
          row.servers[name].figures.push({ round, ...figures });
          say(
            `${mode} ${work}/${row.form} ×${row.connections} ${round + 1}/${options.rounds} ${name}: ${inShort(figures)}`,
          );
        });
      } catch (error) {
        signal.throwIfAborted();
        // One incorrect response, and none of the server's figures in that row count.
        for (const row of current ? [current] : ownRows) row.servers[name] = { figures: [], failed: true };
        const failure = `${mode} ${work}${current ? `/${current.form}` : ''}, ${name}: ${error.message}`;
        failures.push(failure);
        say(failure);
      }
    }
  }
  return rows;
}

/** Starts a server and measures it in the rows of one work. Calls `onRow` before each row, and again with its figures. */
async function measureServer(name, rows, backend, run, onRow) {
  const { options, cores, directory } = run;
  const { env } = backend;
  await backend.removeAdditions();
  const server = await (isOwn(name) ? startProgram(backend.root, env, run) : startPeer(name, env, run, cores.server));
  let additions = { expected: 0, tolerance: 0 };
  try {
    const prepared = rows.map((row) => {
      const requests = toRequests(row.work, row.form, backend.keys[0]);
      return { row, requests, file: writeRequests(directory, `${row.work}-${row.form}`, requests) };
    });
    const load = async ({ row, file }, connections, seconds) => {
      const figures = await measure({ server, file, connections, seconds, cores });
      server.emptyLog();
      additions = count(additions, row.work, figures.requests, connections);
      return figures;
    };
    for (const { row, requests } of prepared) {
      onRow(row);
      await checkServer(server.port, requests);
      additions = count(additions, row.work, Math.min(100, requests.length), 0);
    }
    const warmUp = Math.max(1, Math.round(options.warmup / prepared.length));
    for (const one of prepared) {
      onRow(one.row);
      await load(one, 32, warmUp);
      await backend.pin(cores.load);
    }
    for (const one of prepared) {
      onRow(one.row);
      await load(one, one.row.connections, REWARM);
      onRow(one.row, await load(one, one.row.connections, options.seconds));
    }
  } finally {
    await server.stop();
  }
  const stored = await backend.countAdditions();
  if (Math.abs(stored - additions.expected) > additions.tolerance)
    throw new Error(`${additions.expected} additions were answered, but ${stored} were stored`);
}

/** The additions among the first requests of a work. wrk stops with a request under way on each connection. */
function count({ expected, tolerance }, work, sent, connections) {
  const { requests } = WORKS[work];
  const among = (some) => some.filter(([{ document }]) => document === 'add').length;
  const rounds = Math.floor(sent / requests.length);
  const additions = rounds * among(requests) + among(requests.slice(0, sent % requests.length));
  return { expected: expected + additions, tolerance: tolerance + connections };
}

/** The order changes from round to round, so that nothing is always measured after the same other. */
function inTurns(items, round) {
  return round % 2 === 0 ? items : [...items].reverse();
}

function inShort({ perSecond, p99, cpuMicros, busy, others }) {
  const percent = (share) => `${Math.round(share * 100)} %`;
  return `${perSecond.toFixed(0)}/s, p99 ${p99.toFixed(1)} ms, ${cpuMicros.toFixed(0)} µs CPU, core ${percent(busy)} server and ${percent(others)} others`;
}
