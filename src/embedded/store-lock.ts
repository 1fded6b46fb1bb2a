import { link, mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

/** The sole right to an embedded store: PGlite does not notice a second process, and would corrupt the files. */
export interface StoreLock {
  release(): Promise<void>;
}

/** Another process has the store. The message is one line and says who. */
export class StoreBusyError extends Error {
  override readonly name = 'StoreBusyError';
}

interface Owner {
  readonly pid: number;
  /** When that process started, in ticks since boot; null where the system does not tell. Process ids are used again. */
  readonly startedAt: string | null;
}

/**
 * Takes the lock of a store. What a killed process left behind is taken over.
 * @throws StoreBusyError when a living process has it
 */
export async function acquireStoreLock(directory: string): Promise<StoreLock> {
  await mkdir(directory, { recursive: true, mode: 0o700 });
  const path = join(directory, 'lock');
  for (let attempt = 0; attempt < 10; attempt++) {
    if (await create(path)) return { release: () => rm(path, { force: true }) };
    const text = await readFile(path, 'utf8').catch(() => undefined);
    const owner = text === undefined ? undefined : parseOwner(text);
    if (owner && isAlive(owner)) {
      throw new StoreBusyError(`the store in ${directory} is in use by process ${owner.pid}`);
    }
    if (text !== undefined) await breakLock(path, text);
  }
  throw new StoreBusyError(`the store in ${directory} is being opened by another process`);
}

async function create(path: string): Promise<boolean> {
  const written = `${path}.${process.pid}.new`;
  await writeFile(written, JSON.stringify({ pid: process.pid, startedAt: startOf(process.pid) } satisfies Owner), {
    mode: 0o600,
  });
  try {
    // A link appears whole and only where nothing is, so nobody ever reads half a lock.
    await link(written, path);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false;
    throw error;
  } finally {
    await rm(written, { force: true });
  }
}

/** Moves a dead process's lock away. If somebody was faster and it is theirs by now, they get it back. */
async function breakLock(path: string, seen: string): Promise<void> {
  const aside = `${path}.${process.pid}`;
  try {
    await rename(path, aside);
    if ((await readFile(aside, 'utf8')) !== seen) await rename(aside, path);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
  } finally {
    await rm(aside, { force: true });
  }
}

function parseOwner(text: string): Owner | undefined {
  try {
    return JSON.parse(text) as Owner;
  } catch {
    return undefined;
  }
}

function isAlive({ pid, startedAt }: Owner): boolean {
  if (pid === process.pid && startedAt !== startOf(pid)) return false;
  try {
    process.kill(pid, 0);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ESRCH') return false;
  }
  return startedAt === null || startOf(pid) === startedAt;
}

/** The 22nd field of https://man7.org/linux/man-pages/man5/proc_pid_stat.5.html; the second may hold spaces, in brackets. */
function startOf(pid: number): string | null {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    return stat.slice(stat.lastIndexOf(')') + 2).split(' ')[19] ?? null;
  } catch {
    return null;
  }
}
