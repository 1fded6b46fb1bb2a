import { spawn, type ChildProcess } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { existsSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { until } from '../support/process.js';

export interface Ended {
  readonly exitCode: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** A reader's terminal: variables and the folder stay from one command to the next, and servers go on in the background. */
export interface Terminal {
  /** Runs a command to its end. */
  run(command: string): Promise<Ended>;
  /** Starts a server and waits until it listens; returns what it has printed by then, without the words of npm and the log. */
  serve(command: string, limitMs?: number): Promise<string>;
  /** The value of a variable, empty if there is none. */
  variable(name: string): Promise<string>;
  /** Ends the servers. */
  close(): Promise<void>;
}

/** The build before a start takes its time on a busy machine. */
const SERVER_LIMIT_MS = 120_000;
const LISTENING = /listening on http.*\n/;

/** What a person has, and nothing that npm or the test runner sets for what they start. */
const { PATH, HOME, npm_config_registry } = process.env;
const INHERITED = { PATH, HOME, ...(npm_config_registry && { npm_config_registry }) };

export function openTerminal(directory: string, env: Readonly<Record<string, string>>): Terminal {
  const state = join(directory, `.terminal-${randomUUID()}`);
  const servers = new Set<ChildProcess>();

  function signalServers(signal: NodeJS.Signals): void {
    for (const { pid } of servers) if (pid !== undefined) process.kill(-pid, signal);
  }
  const endAtExit = (): void => signalServers('SIGKILL');
  process.once('exit', endAtExit);

  /** In the state that the last command left; a server's own is left to nobody. */
  function shell(command: string, keepsState: boolean): ChildProcess {
    const restore = existsSync(state) ? `source ${state}; cd "$HERE"; ` : '';
    const save = keepsState ? `; status=$?; HERE=$PWD; export -p > ${state}; exit $status` : '';
    return spawn('bash', ['-c', `set -a; ${restore}${command}\n${save.replace(/^; /, '')}`], {
      cwd: directory,
      env: { ...INHERITED, ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
      detached: true,
    });
  }

  async function run(command: string): Promise<Ended> {
    const child = shell(command, true);
    const stdout = collect(child.stdout);
    const stderr = collect(child.stderr);
    const exitCode = await new Promise<number | null>((resolve) => child.once('close', resolve));
    return { exitCode, stdout: stdout(), stderr: stderr() };
  }

  return {
    run,
    async serve(command, limitMs = SERVER_LIMIT_MS) {
      const child = shell(command, false);
      servers.add(child);
      const stdout = collect(child.stdout);
      const stderr = collect(child.stderr);
      child.once('close', () => servers.delete(child));
      await until(`a server listens: ${command}`, () => LISTENING.test(stdout()) || !servers.has(child), limitMs);
      if (!servers.has(child)) throw new Error(`the server ended: ${stdout()}${stderr()}`);
      return stdout().replace(/^(?:> |\{).*\n/gm, '');
    },
    variable: async (name) => (await run(`printf %s "$${name}"`)).stdout,
    async close() {
      process.off('exit', endAtExit);
      signalServers('SIGTERM');
      await until('the servers have ended', () => servers.size === 0);
      await rm(state, { force: true });
    },
  };
}

function collect(stream: NodeJS.ReadableStream | null): () => string {
  let text = '';
  stream?.setEncoding('utf8').on('data', (piece: string) => (text += piece));
  return () => text;
}
