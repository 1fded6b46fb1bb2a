import { spawn, type StdioOptions } from 'node:child_process';
import { once } from 'node:events';
import { openSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { scrape, sum } from '../observability/scrape.js';
import { findFreePort, makePlace, until, type Place } from '../support/process.js';

const MAIN = fileURLToPath(new URL('../../dist/main.js', import.meta.url));

/** Opens what standard output and standard error are. */
const OUTPUTS: Readonly<Record<string, () => StdioOptions>> = {
  'a full disk': () => ['ignore', openSync('/dev/full', 'w'), openSync('/dev/full', 'w')],
  'a full disk, in development': () => ['ignore', openSync('/dev/full', 'w'), 'pipe'],
  'closed pipes': () => ['ignore', 'pipe', 'pipe'],
  'pipes that nobody reads': () => ['ignore', 'pipe', 'pipe'],
};

describe('a server whose log cannot be written', () => {
  let place: Place;

  beforeAll(async () => {
    place = await makePlace();
  });
  afterAll(() => place.close());

  it.each(Object.entries(OUTPUTS))('serves, and ends with status 0 on SIGTERM: %s', async (name, open) => {
    const port = await findFreePort();
    const child = spawn(process.execPath, [MAIN], {
      cwd: place.directory,
      stdio: open(),
      env: {
        PATH: process.env.PATH,
        PORT: String(port),
        DATABASE_URL: await place.database(),
        LOG_LEVEL: 'debug',
        NODE_ENV: name.endsWith('development') ? 'development' : 'production',
        // Causes a line on standard error.
        DATABSE_URL: 'typo',
      },
    });
    try {
      if (name === 'closed pipes') for (const pipe of [child.stdout, child.stderr]) pipe?.destroy();
      const server = { fetch: (path: string) => fetch(`http://127.0.0.1:${port}${path}`) };
      const isReady = () =>
        server.fetch('/readyz').then(
          ({ ok }) => ok,
          () => false,
        );
      await until('it is ready', isReady);
      // More lines than a pipe holds.
      for (let n = 0; n < 60; n++) {
        const path = `/${String(n).padEnd(5_000, 'x')}`;
        expect((await server.fetch(path)).status).toBe(404);
      }
      for (let n = 0; n < 400; n++) expect((await server.fetch('/livez')).status).toBe(200);
      const lost = async () => sum(await scrape(server), 'log_lines_dropped_total');
      if (name === 'pipes that nobody reads') expect(await lost()).toBe(0);
      else await until('lines are counted', async () => ((await lost()) ?? 0) > 400);
      const ended = once(child, 'exit');
      child.kill('SIGTERM');
      expect(await ended).toEqual([0, null]);
    } finally {
      child.kill('SIGKILL');
    }
  });
});
