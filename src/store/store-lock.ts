import { readFileSync } from 'node:fs';
import { readdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { makeDirectory } from '../make-directory.js';

/** An exclusive lock on an embedded store. PGlite does not detect a second process, which would corrupt the files. */
export interface StoreLock {
  release(): Promise<void>;
}

/** Another process has the lock. The message is one line with its process id. */
export class StoreBusyError extends Error {
  override readonly name = 'StoreBusyError';
}

interface Owner {
  readonly pid: number;
  /** When the process started, in ticks since boot, because process ids are reused; empty if the system does not tell. */
  readonly startedAt: string;
}

const ATTEMPTS = 10;

/**
 * Locks a store with a file whose name identifies the process. Each process first creates its file and then looks for
 * others, so if two try at once, at least one sees the other. Files of dead processes are removed.
 * @throws StoreBusyError if a living process has the lock
 */
export async function acquireStoreLock(directory: string): Promise<StoreLock> {
  await makeDirectory(directory);
  const own = `lock.${process.pid}.${startOf(process.pid)}`;
  const path = join(directory, own);
  for (let attempt = 1; ; attempt++) {
    const holder = await findHolder(directory);
    if (holder) throw new StoreBusyError(`the store in ${directory} is in use by process ${holder.pid}`);
    await writeFile(path, '', { mode: 0o600 });
    const rival = await findHolder(directory, own);
    if (!rival) return { release: () => rm(path, { force: true }) };
    await rm(path, { force: true });
    if (attempt === ATTEMPTS) {
      throw new StoreBusyError(`the store in ${directory} is being opened by process ${rival.pid}`);
    }
    await sleep(Math.random() * 20 * attempt);
  }
}

/** Finds a living process that has the lock or tries to take it. Removes the files of dead processes. */
async function findHolder(directory: string, except?: string): Promise<Owner | undefined> {
  for (const name of await readdir(directory)) {
    const [, pid, startedAt] = /^lock\.(\d+)\.(\d*)$/.exec(name) ?? [];
    if (pid === undefined || startedAt === undefined || name === except) continue;
    const owner = { pid: Number(pid), startedAt };
    if (isAlive(owner)) return owner;
    // No other process ever creates a file of this name.
    await rm(join(directory, name), { force: true });
  }
  return undefined;
}

function isAlive({ pid, startedAt }: Owner): boolean {
  try {
    process.kill(pid, 0);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ESRCH') return false;
  }
  return startedAt === '' || startOf(pid) === startedAt;
}

/**
 * Returns when a process started: field 22 of https://man7.org/linux/man-pages/man5/proc_pid_stat.5.html. Field 2, in
 * brackets, may contain spaces. Empty if the system does not tell, and for a zombie.
 */
function startOf(pid: number): string {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    return fields[0] === 'Z' ? '' : (fields[19] ?? '');
  } catch {
    return '';
  }
}
