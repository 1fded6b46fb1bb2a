import { spawn } from 'node:child_process';
import { closeSync, openSync, readFileSync, truncateSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { pinned } from './cores.mjs';
import { findFreePort, listensOn } from './listener.mjs';

const START_LIMIT_MS = 60_000;
const POLL_MS = 50;

/**
 * Linux shares out a core among sessions (sched_autogroup). In one session with the load generator, a server that waits
 * much gets ever less of a core that others want too, down to a fiftieth.
 */
export const OWN_SESSION = { detached: true };

/** What this run has started and must end, whatever happens. */
const running = new Set();

/** Ends everything at once. */
export function killAll() {
  for (const child of running) child.kill('SIGKILL');
  running.clear();
}

/**
 * Starts a program that listens on a port of loopback, on one core, and waits until it does.
 * @param launch - `{ name, args, env, core, directory }`; `PORT` is added to `env`, output goes to a file in `directory`
 */
export async function startServer({ name, args, env, core, directory }) {
  const port = await findFreePort();
  const logFile = join(directory, `${name}-${port}.log`);
  // Opened to append, so that emptying the file between measurements leaves no hole at its start.
  const output = openSync(logFile, 'a');
  const [command, argv] = pinned(core, process.execPath, args);
  const child = spawn(command, argv, {
    env: { PATH: process.env.PATH, HOME: process.env.HOME, NODE_ENV: 'production', ...env, PORT: String(port) },
    cwd: directory,
    stdio: ['ignore', output, output],
    ...OWN_SESSION,
  });
  closeSync(output);
  running.add(child);
  let failure;
  child.once('error', (error) => (failure = error.message));
  child.once('exit', (code, signal) => (failure = `it ended with ${signal ?? `status ${code}`}`));

  const lastWords = () => readFileSync(logFile, 'utf8').trim().slice(-1_500);
  const deadline = performance.now() + START_LIMIT_MS;
  while (failure !== undefined || !(await listensOn(child.pid, port))) {
    if (failure === undefined && performance.now() > deadline) failure = 'it does not listen after a minute';
    if (failure !== undefined) {
      await end(child);
      throw new Error(`${name} did not start: ${failure}\n${lastWords()}`);
    }
    await sleep(POLL_MS);
  }
  return {
    name,
    port,
    pid: child.pid,
    /** Throws when it has died, or when its port is no longer its own. */
    async assertAlive() {
      if (failure !== undefined) throw new Error(`${name} died: ${failure}\n${lastWords()}`);
      if (!(await listensOn(child.pid, port))) throw new Error(`${name} no longer listens on ${port}`);
    },
    emptyLog: () => truncateSync(logFile),
    lastWords,
    stop: () => end(child),
  };
}

async function end(child) {
  running.delete(child);
  if (child.exitCode !== null || child.signalCode !== null || child.pid === undefined) return;
  const gone = new Promise((resolve) => child.once('exit', resolve));
  child.kill('SIGKILL');
  await gone;
}

/** A child of the harness that is told what to do over IPC. */
export function register(child) {
  running.add(child);
  return { stop: () => end(child) };
}
