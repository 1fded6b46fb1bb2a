import { mkdtemp, readdir, rename, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { isListening, lockStore, SERVER_SOCKET } from '../../src/store/store-lock.js';

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
    const lock = await lockStore(directory);
    await moveElsewhere();
    await expect(lockStore(directory)).rejects.toThrow('in use by process 99999999');
    await lock.release();
  });

  it('is taken over from a dead owner, and leaves nothing behind', async () => {
    await writeFile(join(directory, `${ELSEWHERE}.0badcafe`), '');
    await writeFile(join(directory, `lock.${process.pid}.0badcafe`), '');
    const lock = await lockStore(directory);
    expect(await readdir(directory)).toEqual([expect.stringMatching(/^lock\.\d+\.[0-9a-f]+$/)]);
    await lock.release();
    expect(await readdir(directory)).toEqual([]);
  });

  it('says which process is using the store while that process serves it, and after that finds nobody', async () => {
    const lock = await lockStore(directory);
    await lock.serve((socket) => void socket.destroy());
    expect(await isListening(join(directory, SERVER_SOCKET))).toBe(true);
    expect((await stat(join(directory, '.s.PGSQL.5432'))).mode & 0o777).toBe(0o600);
    await expect(lockStore(directory)).rejects.toThrow(`in use by process ${process.pid}`);
    await lock.release(() => Promise.resolve());
    expect(await isListening(join(directory, SERVER_SOCKET))).toBe(false);
    expect(await readdir(directory)).toEqual([]);
  });

  it('finds no server in a directory that does not exist', async () => {
    expect(await isListening(join(directory, 'missing', SERVER_SOCKET))).toBe(false);
  });

  it('is refused in a directory whose path is too long for a socket', async () => {
    await expect(lockStore(join(directory, 'ö'.repeat(60)))).rejects.toThrow(/DATA_DIR .* more than 76 bytes/);
  });
});
