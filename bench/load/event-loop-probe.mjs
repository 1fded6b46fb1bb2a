// Loaded into the program with --import: measures how long each turn of the event loop takes, in CPU time of its
// thread.
import { readFileSync } from 'node:fs';
import { createServer } from 'node:net';

const SCHEDSTAT = `/proc/self/task/${process.pid}/schedstat`;
let longest = 0;
let before = readCpuTime();

function readCpuTime() {
  return Number(readFileSync(SCHEDSTAT, 'latin1').split(' ', 1)[0]);
}

function turn() {
  const now = readCpuTime();
  longest = Math.max(longest, now - before);
  before = now;
  setImmediate(turn).unref();
}
turn();

/** Says how many nanoseconds the longest turn has taken, and begins anew. */
createServer((socket) => {
  socket.end(String(longest));
  longest = 0;
})
  .listen(process.env.PROBE_SOCKET)
  .unref();
