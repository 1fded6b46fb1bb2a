import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { describeWith } from '../support/installed-program.js';
import { findFreePort } from '../support/process.js';
import { copyProject } from './checkout.js';
import { readDocument } from './markdown.js';
import { openShell, type Shell } from './shell.js';

/** In milliseconds. On a slow machine, npm takes most of this time. */
const TIME_LIMIT = 1_200_000;

describeWith('curl', 'a newcomer with a copy of the project', () => {
  let directory: string;
  let shell: Shell;

  beforeAll(async () => {
    directory = await mkdtemp(join(tmpdir(), 'cold-start-'));
    await copyProject(directory);
    const PORT = String(await findFreePort());
    // The packages were installed before these tests: a slow registry must not fail them.
    shell = await openShell(directory, { PORT, npm_config_prefer_offline: 'true' });
  });
  afterAll(async () => {
    await shell.close();
    await rm(directory, { recursive: true, force: true });
  });

  it(
    'gets animals with the first command of the README and the curl line that it prints',
    { timeout: TIME_LIMIT },
    async () => {
      const command = readDocument('README.md').blocks[0]?.text.trim() ?? '';
      expect(command).toBe('npm ci && npm start');
      const start = performance.now();
      const output = await shell.run(command);
      console.log(`${command}: listening after ${((performance.now() - start) / 1_000).toFixed(1)} s`);
      const answer = await shell.run(/^curl .*$/m.exec(output)?.[0] ?? 'false');
      expect(JSON.parse(answer)).toMatchObject({ data: { pets: [{ id: '1', name: 'Bella' }, {}, {}] } });
    },
  );
});
