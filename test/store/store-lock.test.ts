import { mkdir, mkdtemp, readdir, rename, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { acquireStoreLock } from '../../src/store/store-lock.js';

/** No process of this machine has this id. */
const ELSEWHERE = 'lock.99999999';

describe('the lock of a store', () => {
  let directory: string;

  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), 'store-lock-'));
  });
  afterEach(() => rm(directory, { recursive: true, force: true }));

  /** Renames a lock as if its owner were in another container, where it has another process id. */
  async function moveElsewhere(): Promise<void> {
    const [name = ''] = await readdir(directory);
    await rename(join(directory, name), join(directory, name.replace(/^lock\.\d+/, ELSEWHERE)));
  }

  it('stays with its living owner, also if the process id of the owner is unknown here', async () => {
    const lock = await acquireStoreLock(directory);
    await moveElsewhere();
    await expect(acquireStoreLock(directory)).rejects.toThrow('in use by process 99999999');
    await lock();
  });

  it('is taken over from a dead owner, and leaves nothing behind', async () => {
    await writeFile(join(directory, `${ELSEWHERE}.0badcafe`), '');
    await writeFile(join(directory, `lock.${process.pid}.0badcafe`), '');
    const lock = await acquireStoreLock(directory);
    expect(await readdir(directory)).toEqual([expect.stringMatching(/^lock\.\d+\.[0-9a-f]+$/)]);
    await lock();
    expect(await readdir(directory)).toEqual([]);
  });

  it('works in a directory with a long path', async () => {
    const long = join(directory, 'ö'.repeat(60));
    await mkdir(long);
    const lock = await acquireStoreLock(long);
    await expect(acquireStoreLock(long)).rejects.toThrow(/is in use by process/);
    await lock();
    await (
      await acquireStoreLock(long)
    )();
  });
});
