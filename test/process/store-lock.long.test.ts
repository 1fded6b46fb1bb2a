import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { linesOf, makePlace, whyNoContainers, type Place } from '../support/process.js';

const noContainers = whyNoContainers();

describe('the lock of an embedded store', () => {
  let place: Place;

  beforeEach(async () => {
    place = await makePlace();
  });
  afterEach(() => place.close());

  it('keeps out a second server, which reports in one line which process has it', async () => {
    await place.prepareStore('animals');
    const first = await place.start({ PORT: '0', DATA_DIR: 'animals' });
    const { code, stdout, stderr } = await place.run({ PORT: '0', DATA_DIR: 'animals' });
    expect(code).toBe(1);
    expect(stdout).toBe('');
    expect(linesOf(stderr)).toEqual([expect.stringMatching(new RegExp(`animals\\b.*\\bprocess ${first.pid}\\b`))]);
    expect((await first.fetch('/readyz')).status).toBe(200);
  });

  it('has room in a folder with a long path, and commands find its owner there', async () => {
    const env = { PORT: '0', DATA_DIR: join('d'.repeat(52), 'animals') };
    expect(join(place.directory, env.DATA_DIR).length).toBeGreaterThan(76);
    await place.prepareStore(env.DATA_DIR);
    const server = await place.start(env);
    const { code, stdout } = await place.keys(['create', '--plan', 'free', '--json'], env);
    expect(code).toBe(0);
    const { key } = JSON.parse(stdout) as { key: string };
    expect((await server.fetch('/v1/pets', { headers: { Authorization: `Bearer ${key}` } })).status).toBe(200);
    expect((await place.run(env)).stderr).toContain(`in use by process ${server.pid}`);
  });

  it.each([200, 500, 800])('lets a server start beside a command that began %i ms later', async (delayMs) => {
    await place.prepareStore();
    const program = place.launch({ PORT: '0' });
    await sleep(delayMs);
    expect(await place.keys(['list', '--json'])).toMatchObject({ code: 0 });
    expect(await program.listens()).toBe(true);
  });

  it('is released by a server that stops, and taken over from a killed one', async () => {
    await place.prepareStore();
    const env = { PORT: '0', SAMPLE_DATA: 'false' };
    const stopped = await place.start(env);
    expect((await stopped.stop()).code).toBe(0);
    const killed = await place.start(env);
    expect((await killed.stop('SIGKILL')).signal).toBe('SIGKILL');
    expect((await place.keys(['list', '--json'])).code).toBe(0);
    const next = await place.start(env);
    expect((await next.fetch('/readyz')).status).toBe(200);
  });

  it('is taken by exactly one of several servers that start at once after a kill', async () => {
    await place.prepareStore();
    const env = { PORT: '0', SAMPLE_DATA: 'false' };
    await (await place.start(env)).stop('SIGKILL');

    const programs = Array.from({ length: 4 }, () => place.launch(env));
    const outcomes = await Promise.all(
      programs.map(async (program) => ({ program, listens: await program.listens() })),
    );
    const [owner, ...others] = outcomes.filter(({ listens }) => listens).map(({ program }) => program);
    expect(others).toEqual([]);
    expect(owner).toBeDefined();
    for (const { program, listens } of outcomes) {
      if (listens) continue;
      expect(await program.ended).toMatchObject({ code: 1, stdout: '' });
      expect(linesOf(program.stderr)).toEqual([expect.stringMatching(/process \d+/)]);
    }
  });

  it.skipIf(noContainers)(`keeps out other containers, until its owner is killed${skipped(noContainers)}`, async () => {
    await place.prepareStore();
    const env = { PORT: '0', SAMPLE_DATA: 'false' };
    const refusal = { code: 1, stdout: '', stderr: expect.stringMatching(/^.*in use by process \d+.*\n$/) };
    const outside = await place.start(env);
    expect(await place.launchInContainer(env).ended).toMatchObject(refusal);
    await outside.stop('SIGKILL');

    for (let start = 1; start <= 2; start++) {
      const inside = place.launchInContainer(env);
      expect(await inside.listens()).toBe(true);
      expect(await place.launchInContainer(env).ended).toMatchObject(refusal);
      expect(await place.run(env)).toMatchObject(refusal);
      expect((await inside.fetch('/readyz')).status).toBe(200);
      await inside.stop('SIGKILL');
    }
  });
});

function skipped(reason: string | undefined): string {
  return reason === undefined ? '' : ` (SKIPPED: ${reason})`;
}

describe('an embedded store', () => {
  let place: Place;

  beforeEach(async () => {
    place = await makePlace();
    await place.prepareStore();
  });
  afterEach(() => place.close());

  it('that is damaged, or of another PostgreSQL, stops the start with one line', async () => {
    const files = join(place.directory, '.data/postgres');
    const refusal = async (): Promise<string> => {
      const { code, stderr } = await place.run({ PORT: '0' });
      expect({ code, lines: linesOf(stderr).length }).toEqual({ code: 1, lines: 1 });
      return stderr;
    };
    await writeFile(join(files, 'PG_VERSION'), '16\n');
    expect(await refusal()).toMatch(/DATA_DIR.*PostgreSQL 16.*store export/);
    await writeFile(join(files, 'PG_VERSION'), '18\n');
    await rm(join(files, 'global/pg_control'));
    expect(await refusal()).toMatch(/DATA_DIR.*damaged.*pg_control/);
  });
});
