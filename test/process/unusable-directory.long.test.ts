import { chmod, chown, mkdir, readdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { afterMounting, linesOf, makePlace, whyNoContainers, type Place } from '../support/process.js';

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

  it.each([
    ['000', 'base/1/PG_VERSION'],
    ['400', 'global/pg_control'],
    ['500', 'pg_wal'],
    ['600', 'base/1'],
    ['500', ''],
  ])('is not taken for one with a damaged store (mode %s of postgres/%s)', async (mode, name) => {
    await place.prepareStore('data');
    const path = join(place.directory, 'data/postgres', name);
    await chmod(path, mode);
    const { code, stderr } = await place.run(ENV, [], true);
    const reason = `has a store that this user cannot read and write: permission denied (${join('postgres', name)}`;
    expect([code, linesOf(stderr)]).toEqual([1, [expect.stringContaining(reason)]]);
    expect(stderr).not.toMatch(/damaged|backup/);
    await chmod(path, 0o700);
  });

  it('is refused where no directory can be made', async () => {
    const { code, stderr } = await place.run({ ...ENV, DATA_DIR: '/proc/nowhere/data' });
    const reason = expect.stringMatching(/DATA_DIR "\/proc\/nowhere\/data" cannot be used: no such file or directory/);
    expect([code, linesOf(stderr)]).toEqual([1, [reason]]);
  });

  it.skipIf(whyNoContainers())('is not taken for one with a damaged store if its disk is full', async () => {
    await place.prepareStore('data');
    const fill =
      'mkdir full && mount -t tmpfs -o size=60m tmpfs full && cp -r data/* full && ! cat /dev/zero >full/rest';
    const { code, stderr } = await place.launch({ ...ENV, DATA_DIR: 'full' }, afterMounting(`${fill} 2>/dev/null`))
      .ended;
    expect([code, linesOf(stderr)]).toEqual([1, [expect.stringMatching(/"full" has a store that needs more space/)]]);
  });

  it.runIf(process.getuid?.() === 0)('is left as it is by root', async () => {
    await place.prepareStore('data');
    const files = join(place.directory, 'data/postgres');
    await chown(files, 12_345, 12_345);
    const before = await readdir(files, { recursive: true });
    for (const run of [place.keys(['list'], ENV), place.store(['export', '-'], ENV), place.run(ENV)]) {
      const { code, stderr } = await run;
      expect([code, linesOf(stderr)]).toEqual([
        1,
        [expect.stringMatching(/DATA_DIR "data" has a store of another user: run this as that user/)],
      ]);
    }
    expect(await readdir(files, { recursive: true })).toEqual(before);
  });

  it('is named if it is a file, or in one', async () => {
    await writeFile(join(place.directory, 'data'), '');
    const { stderr } = await place.run(ENV);
    expect(linesOf(stderr)).toEqual([expect.stringMatching(/DATA_DIR "data" cannot be used: not a directory/)]);
    expect((await place.keys(['list'], ENV)).stderr).toContain('DATA_DIR "data" cannot be used: not a directory');
    await rm(join(place.directory, 'data'));
    await mkdir(join(place.directory, 'data'));
  });
});

const ENV = { PORT: '0', DATA_DIR: 'data' };
