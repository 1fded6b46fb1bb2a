import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { openLimitsFile, readLimits } from '../../src/access/limits-file.js';
import { createMemoryLedger, type MemoryLedger } from '../../src/access/memory-ledger.js';
import { toWindows } from '../../src/access/plans.js';

const windows = toWindows({ perMinute: 5, perDay: 50 });

let directory: string;
let path: string;
let now: number;

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'limits-file-'));
  path = join(directory, 'limits.json');
  now = Date.now();
});
afterEach(() => rm(directory, { recursive: true, force: true }));

function createLedger(keys: number): MemoryLedger {
  const ledger = createMemoryLedger({ now: () => now, banAfter: 10, banSeconds: 60 });
  for (let n = 0; n < keys; n++) ledger.admit({ id: `key_${n}`, windows }, 1);
  return ledger;
}

/** Returns the longest processor time of one turn of the event loop during `work`, in milliseconds. */
async function longestTurn(work: () => Promise<void>): Promise<number> {
  let longest = 0;
  let isOver = false;
  let before = process.cpuUsage();
  const look = (): void => {
    const { user, system } = process.cpuUsage(before);
    longest = Math.max(longest, (user + system) / 1_000);
    before = process.cpuUsage();
    if (!isOver) setImmediate(look);
  };
  setImmediate(look);
  await work();
  isOver = true;
  return longest;
}

it('saves 200,000 accounts without occupying the event loop', async () => {
  const file = await openLimitsFile(path, createLedger(200_000), { warn: () => undefined });
  // The time of the garbage collector's threads counts too, so the limit is generous.
  expect(await longestTurn(() => file())).toBeLessThan(150);
  const saved = await readLimits(path);
  expect(saved).toHaveLength(200_000);
  expect(new Map(saved).get('key_7')).toMatchObject({ used: [1, 1] });
});

it.each([0, 1, 2])('writes JSON that it reads again: %i accounts', async (keys) => {
  const file = await openLimitsFile(path, createLedger(keys), { warn: () => undefined });
  await file();
  if (keys > 0) expect(JSON.parse(await readFile(path, 'utf8'))).toHaveLength(keys);
  expect(await readLimits(path)).toHaveLength(keys);
});

it('forgets accounts whose windows have closed', async () => {
  const ledger = createLedger(3);
  const file = await openLimitsFile(path, ledger, { warn: () => undefined });
  now += 86_400_000;
  ledger.admit({ id: 'key_1', windows }, 1);
  await file();
  expect((await readLimits(path)).map(([id]) => id)).toEqual(['key_1']);
});
