import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { startServer } from './machine.mjs';

const bench = fileURLToPath(new URL('.', import.meta.url));

/** The arguments of node in a script of the package at `root`, such as `exec node dist/main.js`. */
export function commandOf(root, script) {
  const { scripts } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
  const [, command] = /\bnode ([^|]+)/.exec(scripts[script]) ?? [];
  if (command === undefined) throw new Error(`no node command in the script "${script}" of ${root}/package.json`);
  return command.trim().split(/\s+/);
}

/** Starts a build of this program, with everything on: keys, limits, metrics and a line of JSON in the log per request. */
export async function startProgram(root, env, { core, directory, flags = [] }) {
  const args = [...flags, ...commandOf(root, 'start')];
  const withCounters = { DATA_DIR: directory, ...env };
  const server = await startServer({ name: 'program', args, cwd: root, env: withCounters, core, directory });
  // It listens before it has migrated.
  while ((await fetch(`http://127.0.0.1:${server.port}/readyz`)).status !== 200) {
    server.assertAlive();
    await sleep(50);
  }
  return server;
}

/** Starts a server of `peers/`. */
export function startPeer(name, env, { core, directory }) {
  return startServer({ name, args: [join(bench, `peers/${name}.mjs`)], cwd: bench, env, core, directory });
}

export const PEERS = {
  mercurius: 'mercurius with jit',
  apollo: 'Apollo Server',
  bare: 'bare node:http',
};
