import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';

/** Linux tells CPU times and sockets of processes in /proc; without it there are no CPU figures and no pinning. */
export const HAS_PROC = existsSync('/proc/self/stat');

/** Clock ticks of /proc a second. */
export const TICKS = HAS_PROC ? Number(spawnSync('getconf', ['CLK_TCK'], { encoding: 'utf8' }).stdout) || 100 : 100;

/**
 * Which core does what: the server under test has one for itself; the load generator, the harness and, where there are
 * only two, PostgreSQL or the upstream have the other. Undefined where nothing can be pinned.
 */
export function planCores() {
  if (!HAS_PROC || availableParallelism() < 2 || spawnSync('taskset', ['-V']).status !== 0) return undefined;
  const [, allowed] = /^Cpus_allowed_list:\s*(\S+)$/m.exec(readFileSync('/proc/self/status', 'utf8'));
  const cores = allowed.split(',').flatMap((range) => {
    const [first, last = first] = range.split('-').map(Number);
    return Array.from({ length: last - first + 1 }, (_, index) => first + index);
  });
  return { server: cores[1], load: cores[0], backing: cores[2] ?? cores[0] };
}

/** The command that runs `command` on one core. exec keeps the process id. */
export function pinned(core, command, args) {
  return core === undefined ? [command, args] : ['taskset', ['-c', String(core), command, ...args]];
}

/** Moves processes that run already, as far as that is allowed; those that have gone meanwhile do not matter. */
export function movePids(pids, core) {
  const script = 'core=$1; shift; for pid; do taskset -a -c -p "$core" "$pid"; done';
  spawnSync('sh', ['-c', script, 'sh', String(core), ...pids.map(String)]);
}

/**
 * Moves all threads of a process but its first: V8 collects garbage beside the program, which on one core means instead of
 * it, for a quarter of a second at a time.
 */
export function moveHelperThreads(pid, core) {
  const threads = readdirSync(`/proc/${pid}/task`).filter((thread) => Number(thread) !== pid);
  for (const thread of threads) spawnSync('taskset', ['-c', '-p', String(core), thread]);
}

/** CPU time of a process with all its threads, in seconds. */
export function cpuOf(pid) {
  const text = readFileSync(`/proc/${pid}/stat`, 'latin1');
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
  return (Number(fields[11]) + Number(fields[12])) / TICKS;
}

/** CPU time of the first thread of a process, in seconds: finer than clock ticks, and all there is of a PostgreSQL backend. */
export function onCoreOf(pid) {
  return Number(readFileSync(`/proc/${pid}/schedstat`, 'latin1').split(' ')[0]) / 1e9;
}

/** Seconds that a core has been busy with anything at all. */
export function busyOf(core) {
  const line = new RegExp(`^cpu${core} (.+)$`, 'm').exec(readFileSync('/proc/stat', 'latin1'));
  const [user, nice, system, , , interrupts, softInterrupts, stolen] = line[1].trim().split(/\s+/).map(Number);
  return (user + nice + system + interrupts + softInterrupts + stolen) / TICKS;
}
