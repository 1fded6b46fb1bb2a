import { DIALECTS } from '../data/dialects.mjs';
import { createPicker, operationsOf, WORKS } from '../data/operations.mjs';
import { busyOf, cpuOf, HAS_PROC } from '../machine/cores.mjs';
import { createChecker } from './answers.mjs';
import { Connection } from './connection.mjs';
import { createRequests } from './requests.mjs';

/** Requests under way at the end of a measurement are waited for, since the slow ones are what p99 is about. */
const DRAIN_LIMIT_MS = 30_000;
const CONNECT_LIMIT_MS = 10_000;
/** A slow server answers many connections in bursts: it is measured longer, up to so many times, until each had two. */
const EXTENSIONS = 5;

/** Kept while it is the same server, whose answers it knows from the warm-up. */
let prepared = { id: undefined };

function prepare({ server, work, dialect, keys }) {
  const id = `${server} ${work}`;
  if (prepared.id !== id) {
    const operations = operationsOf(WORKS[work]);
    prepared = {
      id,
      requests: createRequests(operations, DIALECTS[dialect], keys),
      checker: createChecker(operations, DIALECTS[dialect]),
      isAdd: operations.map(({ kind }) => kind === 'add'),
    };
  }
  return prepared;
}

function snapshot({ pid, cores }, answered) {
  const { user, system } = process.cpuUsage();
  return {
    at: performance.now(),
    answered,
    generatorCpu: (user + system) / 1e6,
    serverCpu: HAS_PROC ? cpuOf(pid) : Number.NaN,
    serverCore: cores ? busyOf(cores.server) : Number.NaN,
    loadCore: cores ? busyOf(cores.load) : Number.NaN,
  };
}

/**
 * Asks one server for `warmMs` and then for `measureMs`, each connection its next request when its last is answered.
 * Rejects at the first wrong answer.
 */
async function measure(slot) {
  const { port, work, connections: count, warmMs, measureMs, seed } = slot;
  const { requests, checker, isAdd } = prepare(slot);
  const { heads, rests } = requests;
  const pick = createPicker(WORKS[work], seed);
  const latencies = [];
  let phase = 'warm';
  let sent = 0;
  let answered = 0;
  let added = 0;
  let waiting = 0;
  let settle;
  const finished = new Promise((resolve, reject) => (settle = { resolve, reject }));
  finished.catch(() => undefined);

  const fail = (reason) => settle.reject(new Error(reason));
  const sendNext = (connection) => {
    const index = pick();
    waiting += 1;
    connection.send(heads[sent % heads.length] + rests[index], index);
    sent += 1;
  };
  const onAnswer = (connection, status, bytes, start, end) => {
    const now = performance.now();
    waiting -= 1;
    const fault = checker.check(connection.index, status, bytes, start, end);
    if (fault !== undefined) return fail(fault);
    if (isAdd[connection.index]) added += 1;
    answered += 1;
    if (phase !== 'warm') latencies.push(now - connection.sentAt);
    if (phase !== 'over') sendNext(connection);
    else if (waiting === 0) settle.resolve();
  };
  const all = Array.from({ length: count }, () => new Connection(port, onAnswer, fail));
  // Whatever is awaited here ends early when an answer is wrong, and `finished` rejects.
  const within = async (event, ms, lateness) => {
    let timer;
    const late = new Promise((resolve) => (timer = setTimeout(resolve, ms)));
    await Promise.race([event, finished, late.then(() => lateness && fail(lateness))]);
    clearTimeout(timer);
  };
  const never = new Promise(() => undefined);
  try {
    await within(Promise.all(all.map(({ opened }) => opened)), CONNECT_LIMIT_MS, `no ${count} connections`);
    for (const connection of all) sendNext(connection);
    await within(never, warmMs);
    phase = 'measured';
    const before = snapshot(slot, answered);
    for (let times = 0; times < EXTENSIONS; times += 1) {
      await within(never, measureMs);
      if (answered - before.answered >= 2 * count) break;
    }
    if (answered === before.answered) fail(`no answer in ${(EXTENSIONS * measureMs) / 1_000} s`);
    phase = 'over';
    const after = snapshot(slot, answered);
    await within(never, DRAIN_LIMIT_MS, `${waiting} answers are missing ${DRAIN_LIMIT_MS} ms after the end`);
    await finished;
    return toFigures(slot, before, after, latencies, { added, ...checker.counts });
  } finally {
    for (const connection of all) connection.close();
  }
}

function toFigures({ cores }, before, after, latencies, counts) {
  const seconds = (after.at - before.at) / 1_000;
  const answers = after.answered - before.answered;
  const serverCpu = after.serverCpu - before.serverCpu;
  const sorted = Float64Array.from(latencies).sort();
  const quantile = (share) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))];
  return {
    perSecond: answers / seconds,
    p50: quantile(0.5),
    p99: quantile(0.99),
    cpuMicros: (serverCpu / answers) * 1e6,
    generatorMicros: ((after.generatorCpu - before.generatorCpu) / answers) * 1e6,
    /** Shares of a core: the server itself, others on its core, and the core of the load. */
    serverBusy: serverCpu / seconds,
    foreign: cores ? Math.max(0, (after.serverCore - before.serverCore - serverCpu) / seconds) : Number.NaN,
    loadBusy: (after.loadCore - before.loadCore) / seconds,
    counts,
  };
}

process.on('message', ({ id, slot }) => {
  measure(slot).then(
    (figures) => process.send({ id, figures }),
    (error) => process.send({ id, failure: error.message }),
  );
});
process.on('disconnect', () => process.exit(0));
