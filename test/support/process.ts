import { spawn, spawnSync, type ChildProcess } from 'node:child_process';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import type { DevelopmentKeys } from '../../src/store/first-start.js';
import { copyEmbeddedStore, createDatabase } from './gateway.js';

const MAIN = fileURLToPath(new URL('../../dist/main.js', import.meta.url));
const KEYS = fileURLToPath(new URL('../../dist/cli/keys.js', import.meta.url));
const MIGRATE = fileURLToPath(new URL('../../dist/cli/migrate.js', import.meta.url));
const STORE = fileURLToPath(new URL('../../dist/cli/store.js', import.meta.url));
const TIME_LIMIT_MS = 60_000;

/** The options with which `unshare` runs a command as process 1. They are killed together. */
const IN_CONTAINER = ['--pid', '--fork', '--mount-proc', '--kill-child'];
if (process.getuid?.() !== 0) IN_CONTAINER.push('--map-root-user');

/** Before a command: takes from root what lets it open every file. Others have nothing to lose. */
const UNPRIVILEGED =
  process.getuid?.() === 0 ? ['setpriv', '--bounding-set=-dac_override,-dac_read_search', '--inh-caps=-all'] : [];

/** Before a command: runs a script of the shell in a mount namespace of its own. */
export function afterMounting(script: string): readonly string[] {
  const options = process.getuid?.() === 0 ? [] : ['--map-root-user'];
  return ['unshare', '--mount', ...options, 'sh', '-c', `${script} && exec "$@"`, 'sh'];
}

/** Why this machine cannot start a process in a PID namespace of its own; undefined if it can. */
export function whyNoContainers(): string | undefined {
  const { error, status, stderr } = spawnSync('unshare', [...IN_CONTAINER, 'true'], { encoding: 'utf8' });
  if (error) return 'unshare is not installed';
  if (status === 0) return undefined;
  if (process.env.CI === 'true') throw new Error(`With CI=true no test may be skipped, but unshare says: ${stderr}`);
  return `unshare says: ${stderr.trim()}`;
}

/** The exit status and the output of a process. */
export interface Ended {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** A server in its own process. */
export interface Program {
  readonly url: string;
  readonly pid: number;
  readonly stdout: string;
  readonly stderr: string;
  readonly ended: Promise<Ended>;
  /** Waits until the server listens or exits. Returns whether it listens. */
  listens(): Promise<boolean>;
  fetch(path: string, init?: RequestInit): Promise<Response>;
  /** Sends one operation by POST and returns the parsed response. */
  graphql(query: string, key: string, variables?: Record<string, unknown>): Promise<any>;
  signal(name: NodeJS.Signals): void;
  /** Sends a signal and waits until the process exits. */
  stop(name?: NodeJS.Signals): Promise<Ended>;
}

type Environment = Readonly<Record<string, string>>;

/** An empty folder in which a test starts processes. Each gets only PATH and the environment that the test passes. */
export interface Place {
  readonly directory: string;
  /**
   * Starts the server and does not wait until it listens; `url` is empty.
   * @param launcher - a command that runs the program
   */
  launch(env: Environment, launcher?: readonly string[]): Program;
  /** Starts the server and waits until it listens. */
  start(env: Environment): Promise<Program>;
  /** Runs a server that the test expects to exit by itself. */
  run(env: Environment, args?: readonly string[], isUnprivileged?: boolean): Promise<Ended>;
  /** Starts the server as process 1 of a PID namespace of its own, like a container. Does not wait until it listens. */
  launchInContainer(env: Environment): Program;
  /** Runs the `keys` command. */
  keys(args: readonly string[], env?: Environment, isUnprivileged?: boolean): Promise<Ended>;
  /** Runs the `migrate` command. */
  migrate(args: readonly string[], env?: Environment): Promise<Ended>;
  /** Runs the `store` command. */
  store(args: readonly string[], env?: Environment, isUnprivileged?: boolean): Promise<Ended>;
  /** Creates a PostgreSQL database without animals and keys, and returns its URL. */
  database(options?: { migrated: boolean }): Promise<string>;
  /** Copies an empty embedded store into a `DATA_DIR`. Creating one takes the server seconds. */
  prepareStore(dataDir?: string): Promise<void>;
  /** The development keys in the default `DATA_DIR`. */
  developmentKeys(): Promise<DevelopmentKeys>;
  /** Kills all running processes and removes the folder and the databases. */
  close(): Promise<void>;
}

export async function makePlace(): Promise<Place> {
  const directory = await mkdtemp(join(tmpdir(), 'store-'));
  const children = new Set<ChildProcess>();
  const cleanups: (() => Promise<void>)[] = [];
  const endAll = (): void => {
    for (const child of children) child.kill('SIGKILL');
  };
  process.once('exit', endAll);

  /** @param launcher - a command that runs the program */
  function run(file: string, args: readonly string[], env: Environment, launcher: readonly string[] = []): Running {
    // Like the tests themselves, see vitest.config.ts.
    const [command, ...rest] = [...launcher, process.execPath, '--liftoff-only', file, ...args];
    const child = spawn(command as string, rest, {
      cwd: directory,
      env: { PATH: process.env.PATH, ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    children.add(child);
    const running = new Running(child);
    void running.ended.then(() => children.delete(child));
    return running;
  }

  return {
    directory,
    launch: (env, launcher) => run(MAIN, [], env, launcher),
    start: async (env) => {
      const running = run(MAIN, [], env);
      if (!(await running.listens())) throw new Error(`the server ended: ${(await running.ended).stderr}`);
      return running;
    },
    run: (env, args = [], isUnprivileged = false) => run(MAIN, args, env, isUnprivileged ? UNPRIVILEGED : []).end(),
    launchInContainer: (env) => run(MAIN, [], env, ['unshare', ...IN_CONTAINER]),
    keys: (args, env = {}, isUnprivileged = false) => run(KEYS, args, env, isUnprivileged ? UNPRIVILEGED : []).end(),
    migrate: (args, env = {}) => run(MIGRATE, args, env).end(),
    store: (args, env = {}, isUnprivileged = false) => run(STORE, args, env, isUnprivileged ? UNPRIVILEGED : []).end(),
    async database(options) {
      const { url, drop } = await createDatabase(options);
      cleanups.push(drop);
      return url;
    },
    prepareStore: (dataDir = '.data') => copyEmbeddedStore(join(directory, dataDir)),
    developmentKeys: async () =>
      JSON.parse(await readFile(join(directory, '.data/dev-keys.json'), 'utf8')) as DevelopmentKeys,
    async close() {
      endAll();
      process.off('exit', endAll);
      await until('every process has ended', () => children.size === 0);
      for (const cleanup of cleanups) await cleanup();
      await rm(directory, { recursive: true, force: true });
    },
  };
}

class Running implements Program {
  url = '';
  stdout = '';
  stderr = '';
  readonly pid: number;
  readonly ended: Promise<Ended>;

  constructor(private readonly child: ChildProcess) {
    this.pid = child.pid as number;
    child.on('error', (error) => (this.stderr += error.message));
    child.stdout?.setEncoding('utf8').on('data', (text: string) => (this.stdout += text));
    child.stderr?.setEncoding('utf8').on('data', (text: string) => (this.stderr += text));
    this.ended = new Promise((resolve) => {
      child.once('close', (code, signal) => resolve({ code, signal, stdout: this.stdout, stderr: this.stderr }));
    });
  }

  async listens(): Promise<boolean> {
    await until('a server listens', () => this.isOver || /listening on .*\n/.test(this.stdout));
    this.url = /listening on (http:\S+)/.exec(this.stdout)?.[1] ?? '';
    return !this.isOver;
  }

  fetch(path: string, init?: RequestInit): Promise<Response> {
    return fetch(this.url + path, init);
  }

  async graphql(query: string, key: string, variables?: Record<string, unknown>): Promise<any> {
    const response = await this.fetch('/graphql', {
      method: 'POST',
      headers: { 'Content-Type': 'application/json', Authorization: `Bearer ${key}` },
      body: JSON.stringify({ query, variables }),
    });
    return response.json();
  }

  signal(name: NodeJS.Signals): void {
    this.child.kill(name);
  }

  stop(name: NodeJS.Signals = 'SIGTERM'): Promise<Ended> {
    this.signal(name);
    return this.end();
  }

  async end(): Promise<Ended> {
    await until('a process ends', () => this.isOver);
    return this.ended;
  }

  private get isOver(): boolean {
    return this.child.exitCode !== null || this.child.signalCode !== null;
  }
}

/** Waits until a condition holds. */
export async function until(
  what: string,
  isSo: () => boolean | Promise<boolean>,
  limitMs = TIME_LIMIT_MS,
): Promise<void> {
  const deadline = Date.now() + limitMs;
  while (!(await isSo())) {
    if (Date.now() > deadline) throw new Error(`after ${limitMs} ms it is still not true that ${what}`);
    await sleep(10);
  }
}

export { findFreePort } from './free-port.js';

/** Splits a text into lines, without an empty line at the end. */
export function linesOf(text: string): string[] {
  return text.replace(/\n$/, '').split('\n');
}
