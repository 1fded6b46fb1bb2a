import { Connection } from '../load/connection.mjs';
import { cpuOf } from '../machine/cores.mjs';

/**
 * Asks over so many connections, each its next request when its last is answered, until there is no next one.
 * @param next - gives `{ text, index }`, or undefined when enough has been asked
 * @param check - told of each answer with its index; returns what is wrong with it, or undefined
 * @returns the number of answers; rejects at the first that is wrong
 */
export async function ask({ port, connections, next, check }) {
  let answers = 0;
  let open = connections;
  let settle;
  const finished = new Promise((resolve, reject) => (settle = { resolve, reject }));
  finished.catch(() => undefined);
  const fail = (reason) => settle.reject(new Error(reason));
  const send = (connection) => {
    const request = next();
    if (request) connection.send(request.text, request.index);
    else if ((open -= 1) === 0) settle.resolve();
  };
  const onAnswer = (connection, status, bytes, start, end) => {
    const fault = check(connection.index, status, bytes, start, end);
    if (fault !== undefined) return fail(fault);
    answers += 1;
    send(connection);
  };
  const all = Array.from({ length: connections }, () => new Connection(port, onAnswer, fail));
  try {
    await Promise.race([Promise.all(all.map(({ opened }) => opened)), finished]);
    all.forEach(send);
    await finished;
    return answers;
  } finally {
    for (const connection of all) connection.close();
  }
}

/** Requests as `next` gives them, for so many seconds. */
export function forSeconds(seconds, next) {
  const end = performance.now() + seconds * 1_000;
  return () => (performance.now() < end ? next() : undefined);
}

/**
 * CPU time of each answer, in microseconds.
 * @returns `program`, all its threads, and `postgres`, the backends that it is connected to
 */
export async function measureCpu({ server, database }, asking) {
  const before = { program: cpuOf(server.pid), backends: await database.backendsCpu() };
  const answers = await asking();
  const backends = await database.backendsCpu();
  let postgres = 0;
  for (const [pid, seconds] of backends) postgres += seconds - (before.backends.get(pid) ?? 0);
  const perAnswer = (seconds) => (seconds / answers) * 1e6;
  return { answers, program: perAnswer(cpuOf(server.pid) - before.program), postgres: perAnswer(postgres) };
}
