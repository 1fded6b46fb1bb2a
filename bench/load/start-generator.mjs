import { spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { pinned } from '../machine/cores.mjs';
import { OWN_SESSION, register } from '../machine/processes.mjs';

/** Starts the load generator in a process of its own; `measure(slot)` asks for one measurement. */
export function startGenerator(core) {
  const file = fileURLToPath(new URL('generator.mjs', import.meta.url));
  const [command, args] = pinned(core, process.execPath, ['--max-semi-space-size=64', file]);
  const child = spawn(command, args, { stdio: ['ignore', 'inherit', 'inherit', 'ipc'], ...OWN_SESSION });
  const { stop } = register(child);
  const waiting = new Map();
  let next = 0;
  child.on('message', ({ id, figures, failure }) => {
    const { resolve, reject } = waiting.get(id);
    waiting.delete(id);
    if (failure === undefined) resolve(figures);
    else reject(new Error(failure));
  });
  child.once('exit', () => {
    for (const { reject } of waiting.values()) reject(new Error('the load generator has ended'));
    waiting.clear();
  });
  return {
    stop,
    measure(slot) {
      const id = next;
      next += 1;
      return new Promise((resolve, reject) => {
        waiting.set(id, { resolve, reject });
        child.send({ id, slot });
      });
    },
  };
}
