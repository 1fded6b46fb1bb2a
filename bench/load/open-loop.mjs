import { Connection } from './connection.mjs';

const DRAIN_LIMIT_MS = 5_000;
const RETRY_AFTER = /\r\nretry-after: *\d+/i;

/**
 * Asks at a fixed rate whatever the server does, as the world does, and measures each answer from the moment its request
 * was due. What is due while every connection waits goes out on the first that is free, and has waited since it was due.
 * @param nextRequest - gives the text of the next request
 * @param onsetMs - requests due so early are counted on their own, in milliseconds
 */
export async function askAtRate({ port, rate, seconds, connections, nextRequest, onsetMs = 0 }) {
  const counts = { due: 0, failures: 0, other: 0, withoutRetryAfter: 0 };
  const onset = { accepted: [], refused: [] };
  const steady = { accepted: [], refused: [] };
  const dueAt = [];
  let nextDue = 0;
  let waiting = 0;
  const free = [];
  let latestMs = 0;
  let startedAt = 0;
  const send = (connection) => {
    connection.dueAt = dueAt[nextDue++];
    waiting += 1;
    connection.send(nextRequest(), 0);
    latestMs = Math.max(latestMs, connection.sentAt - connection.dueAt);
  };
  const onAnswer = (connection, status, bytes, start) => {
    // A connection that was never used is closed by the server after a while, which is no answer.
    if (connection.dueAt === undefined) return;
    const now = performance.now();
    waiting -= 1;
    const phase = connection.dueAt - startedAt < onsetMs ? onset : steady;
    if (status === 200) phase.accepted.push(now - connection.dueAt);
    else if (status === 503) {
      phase.refused.push(now - connection.dueAt);
      if (!RETRY_AFTER.test(bytes.latin1Slice(0, start))) counts.withoutRetryAfter += 1;
    } else counts.other += 1;
    if (nextDue < dueAt.length) send(connection);
    else {
      connection.dueAt = undefined;
      free.push(connection);
    }
  };
  const all = [];
  const open = () => {
    const connection = new Connection(port, onAnswer, () => {
      if (connection.dueAt !== undefined) counts.failures += 1;
      else if (free.includes(connection)) free.splice(free.indexOf(connection), 1);
    });
    return connection;
  };
  // Opened some at a time, so that the queue of connections to accept does not overflow.
  while (all.length < connections) {
    const group = Array.from({ length: Math.min(200, connections - all.length) }, () => open());
    await Promise.all(group.map(({ opened }) => opened));
    all.push(...group);
  }
  // A connection is open for its client before the server takes it, and Node takes one in a turn of its event loop.
  await new Promise((resolve) => setTimeout(resolve, 1_000));
  free.push(...all);

  startedAt = performance.now();
  const total = Math.round(rate * seconds);
  await new Promise((resolve) => {
    const tick = () => {
      const now = performance.now();
      const target = Math.min(total, Math.floor(((now - startedAt) / 1_000) * rate));
      while (dueAt.length < target) dueAt.push(startedAt + ((dueAt.length + 1) / rate) * 1_000);
      while (free.length > 0 && nextDue < dueAt.length) send(free.pop());
      if (dueAt.length === total) resolve();
      else setTimeout(tick, 1);
    };
    tick();
  });
  const drainUntil = performance.now() + DRAIN_LIMIT_MS;
  while ((waiting > 0 || nextDue < dueAt.length) && performance.now() < drainUntil) {
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  counts.due = total;
  counts.unanswered = waiting + dueAt.length - nextDue;
  for (const connection of all) connection.close();
  return {
    ...counts,
    /** The longest that a request was late in being sent. */
    latestMs,
    onset: { accepted: summarize(onset.accepted), refused: summarize(onset.refused) },
    steady: { accepted: summarize(steady.accepted), refused: summarize(steady.refused) },
  };
}

/** What a server can do: `connections` that each ask again when they are answered. */
export async function askAsFastAsAnswered({ port, seconds, connections, nextRequest }) {
  const latencies = [];
  let other = 0;
  let isOver = false;
  let waiting = 0;
  const send = (connection) => {
    waiting += 1;
    connection.send(nextRequest(), 0);
  };
  const onAnswer = (connection, status) => {
    waiting -= 1;
    latencies.push(performance.now() - connection.sentAt);
    if (status !== 200) other += 1;
    if (!isOver) send(connection);
  };
  const all = Array.from({ length: connections }, () => new Connection(port, onAnswer, () => (other += 1)));
  await Promise.all(all.map(({ opened }) => opened));
  all.forEach(send);
  await new Promise((resolve) => setTimeout(resolve, seconds * 1_000));
  const perSecond = latencies.length / seconds;
  isOver = true;
  const drainUntil = performance.now() + DRAIN_LIMIT_MS;
  while (waiting > 0 && performance.now() < drainUntil) await new Promise((resolve) => setTimeout(resolve, 10));
  for (const connection of all) connection.close();
  return { perSecond, other, latency: summarize(latencies) };
}

function summarize(values) {
  const sorted = values.sort((a, b) => a - b);
  const at = (share) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0;
  return { count: sorted.length, p50: at(0.5), p99: at(0.99), max: sorted.at(-1) ?? 0 };
}
