// A million keys that were all used within a day: how long each keys command takes.
import { afterAll, beforeAll, expect, it } from 'vitest';
import { addMillionKeys } from '../support/million.js';
import { makePlace, type Place } from '../support/process.js';

let place: Place;
let databaseUrl: string;

beforeAll(async () => {
  place = await makePlace();
  databaseUrl = await place.database();
  await addMillionKeys(databaseUrl);
});
afterAll(() => place.close());

const ID = 'key_000000500000';

/** These add up the rows of a million keys. */
const SINCE = `--since ${new Date(Date.now() - 86_400_000).toISOString()}`;
const REPORTS = ['usage', `usage ${SINCE}`, 'list --unused 90d', 'report --html report.html'];

it('leaves each keys command under a second, except those that add up the usage of all keys', async () => {
  // No command needs more memory for more keys.
  const env = { DATABASE_URL: databaseUrl, NODE_OPTIONS: '--max-old-space-size=128' };
  const seconds: Record<string, number> = {};
  const commands = [
    'create --plan free',
    'list',
    'list --plan pro --active',
    `show ${ID}`,
    `update ${ID} --label new`,
    `rotate ${ID}`,
    `unban ${ID}`,
    `revoke ${ID}`,
    'log',
    `log ${ID}`,
    `usage ${ID}`,
    'usage --deprecated',
    'list --expiring 30d',
    ...REPORTS,
  ];
  for (const command of commands) {
    // The fastest of three runs, because other work on the machine only ever adds to the time.
    for (let run = 1; run <= 3; run++) {
      const startedAt = performance.now();
      const { code, stderr } = await place.keys(command.split(' '), env);
      expect(code, stderr).toBe(0);
      const taken = Math.round((performance.now() - startedAt) / 10) / 100;
      seconds[command] = Math.min(seconds[command] ?? Infinity, taken);
    }
  }
  for (const [command, taken] of Object.entries(seconds)) console.log(`| ${command} | ${taken} s |`);
  const isTooSlow = ([command, taken]: [string, number]): boolean => taken >= (REPORTS.includes(command) ? 10 : 1);
  expect(Object.entries(seconds).filter(isTooSlow)).toEqual([]);
});
