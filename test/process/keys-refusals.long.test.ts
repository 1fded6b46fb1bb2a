import { readdir } from 'node:fs/promises';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { linesOf, makePlace, type Place } from '../support/process.js';

const ENTERPRISE = ['create', '--plan', 'enterprise'];
const LAST_EVENING = '9999-12-31T23:00:00-05:00';

describe('the keys command refuses, in one line and without changing anything,', () => {
  let place: Place;

  beforeEach(async () => {
    place = await makePlace();
  });
  afterEach(() => place.close());

  it.each([
    ['an unknown plan', ['create', '--plan', 'gold'], 'gold'],
    ['a key without a plan', ['create'], '--plan'],
    ['a number of zero', [...ENTERPRISE, '--per-minute', '0', '--per-day', '10'], 'whole number'],
    ['a number too large', [...ENTERPRISE, '--per-minute', '1', '--per-day', '2147483648'], 'whole number'],
    ['an invalid number', [...ENTERPRISE, '--per-minute', '1e3', '--per-day', '10'], 'whole number'],
    ['a word as a date', ['create', '--plan', 'free', '--expires', 'tomorrow'], 'ISO date'],
    ['a day that does not exist', ['create', '--plan', 'free', '--expires', '2099-02-30'], 'ISO date'],
    ['a month that does not exist', ['create', '--plan', 'free', '--expires', '2099-13-01T00:00:00Z'], 'ISO date'],
    ['a time that is in the year 10000 in UTC', ['create', '--plan', 'free', '--expires', LAST_EVENING], 'ISO date'],
    ['a year before 1', ['usage', '--since', '0000-01-01'], 'ISO date'],
    ['a revocation without an id', ['revoke'], 'id'],
    ['a word as the --since date', ['usage', '--since', 'yesterday'], 'ISO date'],
    ['an overlap without a unit', ['rotate', 'key_1', '--overlap', '24'], '24h'],
    ['an overlap of more than a year', ['rotate', 'key_1', '--overlap', '366d'], 'at most 365d; see --help'],
    ['a store that does not exist', ['list'], 'no store in DATA_DIR ".data"'],
    ['an unknown argument', ['list', 'Query.pet'], 'argument'],
    ['a word as a time', ['list', '--unused', 'long'], '24h'],
    ['a report without a file', ['report'], '--html'],
    ['an unknown option', ['list', '--yaml'], '--yaml'],
    ['an unknown command', ['destroy'], "unknown command 'destroy'; see --help"],
    ['a mistyped command', ['lst'], 'Did you mean list?'],
  ])('%s', async (_, args, said) => {
    const { code, stdout, stderr } = await place.keys(args);
    expect(code).not.toBe(0);
    expect(code).not.toBeNull();
    expect(stdout).toBe('');
    expect(linesOf(stderr)).toEqual([expect.stringContaining(said)]);
    expect(stderr).toMatch(/^keys: (?!error)/);
    expect(await readdir(place.directory)).toEqual([]);
  });
});
