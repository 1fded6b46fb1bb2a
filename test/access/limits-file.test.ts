import { mkdir, mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
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

it.each([0, 1, 2])('writes what it reads again: %i accounts', async (keys) => {
  const file = await openLimitsFile(path, createLedger(keys), { warn: () => undefined });
  await file();
  expect(await readLimits(path)).toHaveLength(keys);
});

it('saves what changes within a second, however many accounts there are', async () => {
  const ledger = createLedger(100_000);
  const file = await openLimitsFile(path, ledger, { warn: () => undefined });
  await expect.poll(async () => (await readLimits(path)).length, { timeout: 10_000 }).toBe(100_000);
  const { size } = await stat(path);
  for (let n = 0; n < 3; n++) {
    ledger.admit({ id: `key_${n}`, windows }, 1);
    await sleep(1_500);
    expect(new Map(await readLimits(path)).get(`key_${n}`)).toMatchObject({ used: [2, 2] });
  }
  expect((await stat(path)).size - size).toBeLessThan(1_000);
  await file();
});

it('writes the file anew when it has grown', async () => {
  const ledger = createLedger(1);
  const file = await openLimitsFile(path, ledger, { warn: () => undefined });
  await sleep(1_100);
  for (let n = 0; n < 12_000; n++) ledger.admit({ id: `key_${n}`, windows }, 1);
  await expect.poll(async () => (await stat(path)).size, { interval: 10, timeout: 5_000 }).toBeGreaterThan(1_000_000);
  now += 86_400_000;
  ledger.admit({ id: 'key_7', windows }, 1);
  await file();
  expect((await readFile(path, 'utf8')).split('\n')).toHaveLength(2);
});

it('survives a crash in the middle of a line, and adds to what is left', async () => {
  await writeFile(path, '');
  const file = await openLimitsFile(path, createLedger(2), { warn: () => undefined });
  await file();
  const text = await readFile(path, 'utf8');
  await writeFile(path, text.slice(0, -10));
  const ledger = createMemoryLedger({ now: () => now });
  const next = await openLimitsFile(path, ledger, { warn: () => undefined });
  ledger.admit({ id: 'key_5', windows }, 1);
  await next();
  expect((await readLimits(path)).map(([id]) => id)).toEqual(['key_0', 'key_5']);
});

it('can be written again after it could not', async () => {
  const warnings: string[] = [];
  await mkdir(`${path}.new`);
  const ledger = createLedger(1);
  const file = await openLimitsFile(path, ledger, { warn: (_, message) => warnings.push(message) });
  await expect.poll(() => warnings.length, { timeout: 5_000 }).toBe(1);
  await rm(`${path}.new`, { recursive: true });
  await file();
  expect(warnings).toHaveLength(1);
  expect(await readLimits(path)).toHaveLength(1);
});

it('forgets accounts whose windows have closed', async () => {
  const ledger = createLedger(3);
  const file = await openLimitsFile(path, ledger, { warn: () => undefined });
  now += 86_400_000;
  ledger.admit({ id: 'key_1', windows }, 1);
  await file();
  expect((await readLimits(path)).map(([id]) => id)).toEqual(['key_1']);
});
