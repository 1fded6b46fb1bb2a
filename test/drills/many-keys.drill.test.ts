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

/** These add up the rows of all keys. */
const REPORTS = ['usage', 'usage --by operation'];

it('leaves each keys command under a second, except reports on all keys', async () => {
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
    'deprecated',
    ...REPORTS,
  ];
  for (const command of commands) {
    const startedAt = performance.now();
    const { code, stderr } = await place.keys(command.split(' '), { DATABASE_URL: databaseUrl });
    expect(code, stderr).toBe(0);
    seconds[command] = Math.round((performance.now() - startedAt) / 10) / 100;
  }
  for (const [command, taken] of Object.entries(seconds)) console.log(`| ${command} | ${taken} s |`);
  const isTooSlow = ([command, taken]: [string, number]): boolean => taken >= (REPORTS.includes(command) ? 10 : 1);
  expect(Object.entries(seconds).filter(isTooSlow)).toEqual([]);
});
