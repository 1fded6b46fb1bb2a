import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { describeWith } from '../support/installed-program.js';
import { findFreePort } from '../support/process.js';
import { copyProject } from './checkout.js';
import { readDocument } from './markdown.js';
import { openTerminal, type Terminal } from './terminal.js';

/** Of which most is for npm to install, on a slow machine. */
const TIME_LIMIT_MS = 1_200_000;

describeWith('curl', 'a stranger with a copy of the project', () => {
  let directory: string;
  let terminal: Terminal;

  beforeAll(async () => {
    directory = await mkdtemp(join(tmpdir(), 'cold-start-'));
    await copyProject(directory);
    terminal = openTerminal(directory, { PORT: String(await findFreePort()) });
  });
  afterAll(async () => {
    await terminal.close();
    await rm(directory, { recursive: true, force: true });
  });

  it(
    'gets animals by the first command of the README and the curl line that it prints',
    { timeout: TIME_LIMIT_MS },
    async () => {
      const command = readDocument('README.md').blocks[0]?.text.trim() ?? '';
      const begin = performance.now();
      const output = await terminal.serve(command, TIME_LIMIT_MS);
      const listening = performance.now();
      const { stdout } = await terminal.run(/^curl .*$/m.exec(output)?.[0] ?? 'false');
      const seconds = (moment: number): string => ((moment - begin) / 1_000).toFixed(1);
      console.log(
        `${command}: listening after ${seconds(listening)} s, first answer after ${seconds(performance.now())} s`,
      );
      expect(command).toBe('npm ci && npm start');
      expect(JSON.parse(stdout)).toMatchObject({ data: { pets: [{ id: '1', name: 'Bella' }, {}, {}] } });
    },
  );
});
