import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, openSync, readFileSync, truncateSync } from 'node:fs';
import { connect, createServer } from 'node:net';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

const START_LIMIT_MS = 60_000;

/** Clock ticks per second, the unit of CPU times in /proc: the same on every Linux. */
const TICKS = 100;

/** The server under test gets a core for itself; the load generator, PostgreSQL or the upstream, and the harness share another. */
export function planCores() {
  if (availableParallelism() < 2 || spawnSync('taskset', ['-V']).status !== 0)
    throw new Error('the benchmark needs Linux, taskset and two cores');
  return { load: 0, server: 1 };
}

/** Moves running processes with all their threads to a core. Those that have ended in the meantime do not matter. */
export function moveToCore(core, pids) {
  for (const pid of pids) spawnSync('taskset', ['-a', '-c', '-p', String(core), String(pid)]);
}

/** CPU time of a process with all its threads, in seconds. */
export function cpuTimeOf(pid) {
  const text = readFileSync(`/proc/${pid}/stat`, 'latin1');
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
  return (Number(fields[11]) + Number(fields[12])) / TICKS;
}

/** Seconds that a core has been busy with anything. */
export function busyTimeOf(core) {
  const [, line] = new RegExp(`^cpu${core} (.+)$`, 'm').exec(readFileSync('/proc/stat', 'latin1'));
  const [user, nice, system, , , interrupts, softInterrupts, stolen] = line.trim().split(/\s+/).map(Number);
  return (user + nice + system + interrupts + softInterrupts + stolen) / TICKS;
}

const running = new Set();

/** Ends every process that this run has started. */
export function killAll() {
  for (const child of running) child.kill('SIGKILL');
  running.clear();
}
process.once('exit', killAll);

/**
 * Starts a program on one core, in a session of its own: Linux shares a busy core fairly between sessions, and a server
 * in one session with the load generator gets less and less of it.
 */
export function startProcess(core, command, args, options) {
  const child = spawn('taskset', ['-c', String(core), command, ...args], { detached: true, ...options });
  running.add(child);
  child.once('close', () => running.delete(child));
  return child;
}

/** Starts a server on a free `PORT` and waits until it accepts connections. Its output goes to a file in `directory`. */
export async function startServer({ name, args, cwd, env, core, directory }) {
  const port = await findFreePort();
  const logFile = join(directory, `${name}-${port}.log`);
  const output = openSync(logFile, 'a');
  const { PATH, HOME } = process.env;
  const child = startProcess(core, process.execPath, args, {
    cwd,
    env: { PATH, HOME, NODE_ENV: 'production', ...env, PORT: String(port) },
    stdio: ['ignore', output, output],
  });
  closeSync(output);
  const exited = once(child, 'exit');
  const assertAlive = () => {
    const exit = child.signalCode ?? child.exitCode;
    if (exit !== null) throw new Error(`${name} ended (${exit})\n${readFileSync(logFile, 'utf8').slice(-1_500)}`);
  };
  const deadline = performance.now() + START_LIMIT_MS;
  while (!(await accepts(port))) {
    assertAlive();
    if (performance.now() > deadline) throw new Error(`${name} does not listen after ${START_LIMIT_MS} ms`);
    await sleep(50);
  }
  return {
    pid: child.pid,
    port,
    assertAlive,
    emptyLog: () => truncateSync(logFile),
    async stop() {
      child.kill('SIGKILL');
      await exited;
    },
  };
}

function accepts(port) {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1').once('error', () => resolve(false));
    socket.once('connect', () => resolve(true)).once('connect', () => socket.destroy());
  });
}

async function findFreePort() {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address();
  await once(server.close(), 'close');
  return port;
}
