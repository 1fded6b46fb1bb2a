import { execFile } from 'node:child_process';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';

/** Returns the ids of a process and its children. */
export async function findWithChildren(parent: number): Promise<number[]> {
  const children = (await listProcesses()).filter((one) => one.parent === parent);
  return [parent, ...children.map(({ pid }) => pid)];
}

/** Kills processes with `kill -9` and waits until they are gone. */
export async function killAll(pids: readonly number[]): Promise<void> {
  for (const pid of pids) send(pid, 'SIGKILL');
  while (pids.some((pid) => send(pid, 0))) await sleep(20);
}

/** Returns false if the process no longer exists. */
export function send(pid: number, signal: NodeJS.Signals | 0): boolean {
  try {
    return process.kill(pid, signal);
  } catch {
    return false;
  }
}

async function listProcesses(): Promise<{ pid: number; parent: number }[]> {
  if (!existsSync('/proc/self/stat')) {
    const { stdout } = await promisify(execFile)('ps', ['-A', '-o', 'pid=,ppid=']);
    return stdout
      .trim()
      .split('\n')
      .map((line) => line.trim().split(/\s+/).map(Number))
      .map(([pid, parent]) => ({ pid: pid as number, parent: parent as number }));
  }
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .flatMap((pid) => {
      try {
        // The second field is the program's name in parentheses, which may contain anything.
        const [, parent] = (readFileSync(`/proc/${pid}/stat`, 'latin1').split(') ').at(-1) as string).split(' ');
        return [{ pid: Number(pid), parent: Number(parent) }];
      } catch {
        return [];
      }
    });
}
