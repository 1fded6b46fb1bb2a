import { chmod, mkdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { linesOf, makePlace, type Place } from '../support/process.js';

describe('a DATA_DIR that this user may not use', () => {
  let place: Place;

  beforeEach(async () => {
    place = await makePlace();
  });
  afterEach(async () => {
    await chmod(join(place.directory, 'data'), 0o700).catch(() => undefined);
    await place.close();
  });

  it('is not taken for one without a store', async () => {
    await place.prepareStore('data');
    await chmod(join(place.directory, 'data'), 0);
    for (const run of [
      place.keys(['list'], ENV, true),
      place.store(['export', '-'], ENV, true),
      place.run(ENV, [], true),
    ]) {
      const { code, stderr } = await run;
      expect([code, linesOf(stderr)]).toEqual([
        1,
        [expect.stringMatching(/: DATA_DIR "data" cannot be used: permission denied/)],
      ]);
    }
  });

  it('is not taken for one with a damaged store', async () => {
    await place.prepareStore('data');
    await chmod(join(place.directory, 'data/postgres/base/1/PG_VERSION'), 0);
    const { stderr } = await place.run(ENV, [], true);
    expect(linesOf(stderr)).toEqual([
      expect.stringMatching(/has a store that this user cannot read and write: permission denied \(postgres.*\)$/),
    ]);
    expect(stderr).not.toMatch(/damaged|backup/);
  });

  it('is named if it is a file, or in one', async () => {
    await writeFile(join(place.directory, 'data'), '');
    const { stderr } = await place.run(ENV);
    expect(linesOf(stderr)).toEqual([expect.stringMatching(/DATA_DIR "data" cannot be used: not a directory/)]);
    expect((await place.keys(['list'], ENV)).stderr).toContain('there is no store in DATA_DIR "data"');
    await rm(join(place.directory, 'data'));
    await mkdir(join(place.directory, 'data'));
  });
});

const ENV = { PORT: '0', DATA_DIR: 'data' };
