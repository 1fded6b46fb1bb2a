import { writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { createDatabase } from './database.mjs';
import { checkServer, measure, writeRequests } from './load/load.mjs';
import { cpuTimeOf } from './machine.mjs';
import { isOwnForm, toRequests, TRUSTED, WORKS } from './requests.mjs';
import { startPeer, startProgram } from './servers.mjs';

/** How many requests of each row are sent one by one, and their responses compared, before the load starts. */
const CHECKED = 100;
const WARM_UP_CONNECTIONS = 32;
/** Load before each measurement, since another row was measured in between. */
const REWARM_SECONDS = 1;

const isOwn = (name) => name === 'ours' || name === 'against';

/** Runs what the options ask for. `rows` has, for each mode and row, the figures of each server by round. */
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
  const server = await startPeer('rest-store', {}, { core: run.cores.load, directory: run.directory });
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
      const own = rows.filter(({ form }) => isOwn(name) || !isOwnForm(form));
      for (const { servers } of own) servers[name] ??= { figures: [], hasFailed: false };
      const isLeft = ({ servers }) => !servers[name].hasFailed;
      /** Does something for each row. After one incorrect response, none of the server's figures in that row count. */
      const forEachRow = async (action) => {
        for (const row of inTurns(own, round).filter(isLeft)) {
          signal.throwIfAborted();
          await action(row).catch((error) => fail([row], error));
        }
      };
      const fail = (failed, error) => {
        signal.throwIfAborted();
        for (const { servers } of failed) servers[name] = { figures: [], hasFailed: true };
        failures.push(`${mode} ${work}/${failed.map(({ form }) => form).join()}, ${name}: ${error.message}`);
        console.error(failures.at(-1));
      };
      const onFigures = (row, figures) => {
        row.servers[name].figures.push({ round, ...figures });
        console.error(
          `${mode} ${work}/${row.form} ×${row.connections} ${round + 1}/${options.rounds} ${name}: ${inShort(figures)}`,
        );
      };
      if (!own.some(isLeft)) continue;
      const server = { name, work, backend: backends.of(name), forEachRow, onFigures };
      await measureServer(server, run).catch((error) => fail(own.filter(isLeft), error));
    }
  }
  return rows;
}

/** Starts a server and measures it in the rows of one work. */
async function measureServer({ name, work, backend, forEachRow, onFigures }, { options, cores, directory }) {
  await backend.removeAdditions();
  const place = { core: cores.server, directory };
  const manifest = join(directory, 'manifest.json');
  writeFileSync(manifest, JSON.stringify(TRUSTED));
  const server = await (isOwn(name)
    ? startProgram(backend.root, { ...backend.env, TRUSTED_DOCUMENTS: manifest }, place)
    : startPeer(name, backend.env, place));
  let answered = 0;
  const load = async ({ form }, connections, seconds) => {
    const figures = await measure({ server, file: toFile(directory, form), connections, seconds, cores });
    server.emptyLog();
    answered += figures.requests;
    return figures;
  };
  try {
    await forEachRow(async ({ form }) => {
      const requests = toRequests(work, form, backend.keys[0]);
      writeRequests(toFile(directory, form), requests);
      const checked = requests.slice(0, CHECKED);
      await checkServer(server.port, checked);
      answered += checked.length;
    });
    await forEachRow(async (row) => {
      // Counted in CPU time, or a busy machine would cut the warm-up short.
      const until = cpuTimeOf(server.pid) + options.warmup;
      for (let second = 0; cpuTimeOf(server.pid) < until && second < 20 * options.warmup; second += 1) {
        await load(row, WARM_UP_CONNECTIONS, 1);
        await backend.pin(cores.load);
      }
    });
    await forEachRow(async (row) => {
      await load(row, row.connections, REWARM_SECONDS);
      const figures = await load(row, row.connections, options.seconds);
      if (figures.requests === 0) throw new Error('no response at all');
      onFigures(row, figures);
    });
  } finally {
    await server.stop();
  }
  const additions = WORKS[work].requests.filter(([{ document }]) => document === 'add').length;
  const expected = (answered * additions) / WORKS[work].requests.length;
  const stored = await backend.countAdditions();
  // wrk says how many requests were answered, but not which, so this is an estimate.
  if (stored < 0.9 * expected - 100)
    throw new Error(`about ${expected.toFixed(0)} additions were answered, but ${stored} were stored`);
}

const toFile = (directory, form) => join(directory, `${form}.requests`);

/** The order changes from round to round, so that nothing is always measured after the same other. */
function inTurns(items, round) {
  return round % 2 === 0 ? items : [...items].reverse();
}

function inShort({ perSecond, p99, cpuMicros, busy, others }) {
  const percent = (share) => `${Math.round(share * 100)} %`;
  return `${perSecond.toFixed(0)}/s, p99 ${p99.toFixed(1)} ms, ${cpuMicros.toFixed(0)} µs CPU, core ${percent(busy)} server and ${percent(others)} others`;
}
