import { mkdirSync, rmdirSync, writeFileSync } from 'node:fs';

/** The limits of control groups, of version 2 and 1: https://docs.kernel.org/admin-guide/cgroup-v2.html */
const CONTROL_GROUPS = [
  ['/sys/fs/cgroup', 'memory.max'],
  ['/sys/fs/cgroup/memory', 'memory.limit_in_bytes'],
] as const;

/**
 * Limits the memory of a process as `MemoryMax` of systemd does, with a control group. Only root may make one; other users
 * get the kernel's limit of the data of a process, which also counts what it does not use.
 * @returns the command that runs a program under the limit, and the function to call after it has ended
 */
export function limitMemory(bytes: number): { readonly launcher: readonly string[]; readonly remove: () => void } {
  for (const [parent, limit] of CONTROL_GROUPS) {
    const group = `${parent}/test-${process.pid}-${Date.now()}`;
    const remove = (): void => rmdirSync(group);
    try {
      mkdirSync(group);
    } catch {
      continue;
    }
    try {
      writeFileSync(`${group}/${limit}`, String(bytes), { flag: 'r+' });
      return { launcher: ['sh', '-c', `echo $$ >${group}/cgroup.procs && exec "$@"`, 'sh'], remove };
    } catch {
      remove();
    }
  }
  return { launcher: ['prlimit', `--data=${bytes}`], remove: () => undefined };
}
