import { spawn, type ChildProcess, type StdioOptions } from 'node:child_process';
import { once } from 'node:events';
import { openSync } from 'node:fs';
import { readFile, rm } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { scrape, sum } from '../observability/scrape.js';
import { describeWith } from '../support/installed-program.js';
import {
  afterMounting,
  findFreePort,
  linesOf,
  makePlace,
  until,
  whyNoContainers,
  type Place,
} from '../support/process.js';

const MAIN = fileURLToPath(new URL('../../dist/main.js', import.meta.url));

/** Opens what standard output and standard error are. */
const OUTPUTS: Readonly<Record<string, () => StdioOptions>> = {
  'a full disk': () => ['ignore', openSync('/dev/full', 'w'), openSync('/dev/full', 'w')],
  'a full disk, in development': () => ['ignore', openSync('/dev/full', 'w'), 'pipe'],
  'closed pipes': () => ['ignore', 'pipe', 'pipe'],
  'pipes that nobody reads': () => ['ignore', 'pipe', 'pipe'],
};

/**
 * Runs a command on a terminal that nobody reads, and prints how it ended: with its status, or minus the number of a
 * signal. SIGUSR1 closes the terminal, and SIGINT kills the command.
 */
const TERMINAL = `
import os, pty, signal, subprocess, sys
terminal, end = pty.openpty()
child = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL, stdout=end, stderr=end)
os.close(end)
signal.signal(signal.SIGTERM, lambda *_: child.terminate())
signal.signal(signal.SIGINT, lambda *_: child.kill())
signal.signal(signal.SIGUSR1, lambda *_: os.close(terminal))
print(child.wait())
`;

/** Writes the log to a file system with room for few lines, until a file is removed. */
const ON_TMPFS = afterMounting(
  'mkdir logs && mount -t tmpfs -o size=64k tmpfs logs && head -c 61440 /dev/zero >logs/filler && exec >>logs/log 2>&1',
);
const noNamespaces = whyNoContainers();

describe('a server whose log cannot be written', () => {
  let place: Place;
  let server: { readonly fetch: (path: string) => Promise<Response> };

  beforeAll(async () => {
    place = await makePlace();
  });
  afterAll(() => place.close());

  /** Starts the server and waits until it is ready. */
  async function start(command: readonly string[], stdio: StdioOptions, isProduction: boolean): Promise<ChildProcess> {
    const port = await findFreePort();
    const [program, ...args] = [...command, process.execPath, MAIN];
    const child = spawn(program, args, {
      cwd: place.directory,
      stdio,
      env: {
        PATH: process.env.PATH,
        PORT: String(port),
        DATABASE_URL: await place.database(),
        LOG_LEVEL: 'debug',
        NODE_ENV: isProduction ? 'production' : 'development',
        // Causes a line on standard error.
        DATABSE_URL: 'typo',
      },
    });
    server = { fetch: (path: string) => fetch(`http://127.0.0.1:${port}${path}`) };
    return child;
  }

  const isReady = () =>
    server.fetch('/readyz').then(
      ({ ok }) => ok,
      () => false,
    );

  const lost = async () => sum(await scrape(server), 'log_lines_dropped_total');

  /** @param paths - how many long paths are asked for */
  async function serve(paths: number): Promise<void> {
    for (let n = 0; n < paths; n++) {
      const path = `/${String(n).padEnd(5_000, 'x')}`;
      expect((await server.fetch(path)).status).toBe(404);
    }
    for (let n = 0; n < 400; n++) expect((await server.fetch('/livez')).status).toBe(200);
  }

  it.each(Object.entries(OUTPUTS))('serves, and ends with status 0 on SIGTERM: %s', async (name, open) => {
    const child = await start([], open(), !name.endsWith('development'));
    try {
      if (name === 'closed pipes') for (const pipe of [child.stdout, child.stderr]) pipe?.destroy();
      await until('it is ready', isReady);
      await serve(60);
      if (name === 'pipes that nobody reads') expect(await lost()).toBe(0);
      else await until('lines are counted', async () => ((await lost()) ?? 0) > 400);
      const ended = once(child, 'exit');
      child.kill('SIGTERM');
      expect(await ended).toEqual([0, null]);
    } finally {
      child.kill('SIGKILL');
    }
  });

  it.skipIf(noNamespaces)('serves on a full tmpfs, and logs again when there is room', async () => {
    const child = await start(ON_TMPFS, 'ignore', true);
    const logs = `/proc/${child.pid}/root${place.directory}/logs`;
    const readLog = () => readFile(`${logs}/log`, 'utf8');
    try {
      await until('it is ready', isReady);
      await serve(60);
      await until('lines are counted', async () => ((await lost()) ?? 0) > 400);
      const full = await readLog();
      expect(full.length).toBe(4_096);
      await rm(`${logs}/filler`);
      await until('lines are written', async () => {
        await server.fetch('/room');
        return (await readLog()).includes('"path":"/room"');
      });
      // The disk was full within a line.
      const rest = (await readLog()).slice(full.length);
      expect(rest).toMatch(/^\n\{/);
      expect(linesOf(rest.slice(1)).filter((line) => !/^\{.*\}$/.test(line))).toEqual([]);
      const ended = once(child, 'exit');
      child.kill('SIGTERM');
      expect(await ended).toEqual([0, null]);
    } finally {
      child.kill('SIGKILL');
    }
  });

  describeWith('python3', 'serves on a terminal', (python) => {
    // process.exit would wait for the thread that writes to the first, and abort because of the second.
    it.each(['that nobody reads', 'that is closed'])('%s, and ends by SIGTERM', async (name) => {
      const child = await start([python, '-c', TERMINAL], ['ignore', 'pipe', 'inherit'], true);
      let said = '';
      child.stdout?.on('data', (text) => (said += String(text)));
      try {
        await until('it is ready', isReady);
        const isClosed = name === 'that is closed';
        if (isClosed) child.kill('SIGUSR1');
        // More lines than a terminal holds.
        await serve(300);
        if (isClosed) await until('lines are counted', async () => ((await lost()) ?? 0) > 400);
        child.kill('SIGTERM');
        await until('it ends', () => said !== '', 20_000);
        expect(Number(said)).toBe(-15);
      } finally {
        child.kill('SIGINT');
      }
    });
  });
});
