import { cpus, totalmem } from 'node:os';

/** What the figures depend on and the reader cannot see. */
export function describeMachine(cores, flags) {
  const [{ model }] = cpus();
  return {
    cpu: `${cpus().length} × ${model.trim()}`,
    memory: `${Math.round(totalmem() / 2 ** 30)} GB`,
    node: process.version,
    flags: flags === '' ? 'none' : flags,
    cores: cores
      ? `server on core ${cores.server}, load generator on ${cores.load}, PostgreSQL or upstream on ${cores.backing}`
      : 'nothing pinned',
    date: new Date().toISOString().slice(0, 10),
  };
}
