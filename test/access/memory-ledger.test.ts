import { beforeEach, describe, expect, it } from 'vitest';
import type { Account, Admission } from '../../src/access/ledger.js';
import { createMemoryLedger, type MemoryLedger } from '../../src/access/memory-ledger.js';
import { toWindows } from '../../src/access/plans.js';

const MINUTE = 60_000;
const DAY = 86_400_000;
const START = Date.UTC(2026, 0, 1, 12, 0, 17);

let now: number;
let ledger: MemoryLedger;

beforeEach(() => {
  now = START;
  ledger = createMemoryLedger({ now: () => now });
});

function account(perMinute: number, perDay: number, id = 'key_a'): Account {
  return { id, windows: toWindows({ perMinute, perDay }) };
}

function remaining({ windows }: Admission): number[] {
  return windows.map((window) => window.remaining);
}

function resets({ windows }: Admission): number[] {
  return windows.map(({ resetAt }) => resetAt - START);
}

describe('windows', () => {
  const key = account(60, 1_000);

  it('open with the first request that costs something', () => {
    expect(ledger.admit(key, 0)).toEqual({
      outcome: 'admitted',
      windows: [
        { name: 'minute', seconds: 60, limit: 60, remaining: 60, resetAt: START + MINUTE },
        { name: 'day', seconds: 86_400, limit: 1_000, remaining: 1_000, resetAt: START + DAY },
      ],
    });
    now = START + 10_000;
    const first = ledger.admit(key, 1);
    expect(remaining(first)).toEqual([59, 999]);
    expect(resets(first)).toEqual([10_000 + MINUTE, 10_000 + DAY]);
  });

  it('are fixed: later requests do not move them', () => {
    ledger.admit(key, 1);
    now += 59_999;
    const late = ledger.admit(key, 4);
    expect(remaining(late)).toEqual([55, 995]);
    expect(resets(late)).toEqual([MINUTE, DAY]);
  });

  it('open again, each on its own, with the first counted request after they close', () => {
    ledger.admit(key, 10);
    now += MINUTE;
    expect(remaining(ledger.admit(key, 0))).toEqual([60, 990]);
    now += 25_000;
    const next = ledger.admit(key, 1);
    expect(remaining(next)).toEqual([59, 989]);
    expect(resets(next)).toEqual([85_000 + MINUTE, DAY]);
    now = START + DAY;
    expect(remaining(ledger.admit(key, 1))).toEqual([59, 999]);
  });

  it('belong to one account', () => {
    ledger.admit(key, 60);
    expect(ledger.admit(key, 1).outcome).toBe('refused');
    expect(ledger.admit(account(60, 1_000, 'key_b'), 1).outcome).toBe('admitted');
  });

  it('admit exactly as many requests as their limit', () => {
    const outcomes = Array.from({ length: 100 }, () => ledger.admit(key, 1).outcome);
    expect(outcomes.filter((outcome) => outcome === 'admitted')).toHaveLength(60);
    expect(outcomes.indexOf('refused')).toBe(60);
  });
});

describe('a refusal', () => {
  it('charges nothing: with 3 left, a refused cost of 5 leaves 3', () => {
    const key = account(10, 1_000);
    ledger.admit(key, 7);
    const refused = ledger.admit(key, 5);
    expect(refused.outcome).toBe('refused');
    expect(remaining(refused)).toEqual([3, 993]);
    expect(remaining(ledger.admit(key, 3))).toEqual([0, 990]);
  });

  it.each([
    ['the minute', account(5, 100)],
    ['the day', account(100, 5)],
  ])('by %s charges neither window', (_, key) => {
    const before = remaining(ledger.admit(key, 4));
    for (let i = 0; i < 3; i++) expect(remaining(ledger.admit(key, 2))).toEqual(before);
    expect(remaining(ledger.admit(key, 1))).toEqual(before.map((left) => left - 1));
  });

  it('opens no window', () => {
    const key = account(10, 5);
    ledger.admit(key, 5);
    now += MINUTE + 5_000;
    const refused = ledger.admit(key, 1);
    expect(refused.outcome).toBe('refused');
    now += 20_000;
    expect(resets(ledger.admit(key, 0))).toEqual([MINUTE + 25_000 + MINUTE, DAY]);
  });

  it('states the longest wait of the full windows, in whole seconds', () => {
    const both = account(5, 5);
    ledger.admit(both, 5);
    now += 10_500;
    expect(ledger.admit(both, 1)).toMatchObject({ outcome: 'refused', retryAfter: 86_390 });
    const minute = account(5, 100, 'key_b');
    ledger.admit(minute, 5);
    now += 10_500;
    expect(ledger.admit(minute, 1)).toMatchObject({ outcome: 'refused', retryAfter: 50 });
    now += 49_499;
    expect(ledger.admit(minute, 1)).toMatchObject({ outcome: 'refused', retryAfter: 1 });
  });

  it('ends after its stated wait', () => {
    const key = account(5, 100);
    ledger.admit(key, 5);
    now += 12_345;
    const refused = ledger.admit(key, 2);
    now += (refused.outcome === 'refused' ? refused.retryAfter : 0) * 1_000;
    expect(ledger.admit(key, 2).outcome).toBe('admitted');
  });
});

describe('a cost above the limit of a window', () => {
  it.each([
    ['the minute', account(10, 100)],
    ['the day', account(100, 10)],
  ])('is always too large for %s, and charges nothing', (_, key) => {
    expect(ledger.admit(key, 11)).toMatchObject({ outcome: 'too-large', limit: 10 });
    expect(ledger.admit(key, 10).outcome).toBe('admitted');
    expect(ledger.admit(key, 11)).toMatchObject({ outcome: 'too-large', limit: 10 });
  });

  it('does not count towards a ban', () => {
    ledger = createMemoryLedger({ now: () => now, banAfter: 0, banSeconds: 60 });
    const key = account(5, 100);
    for (let i = 0; i < 20; i++) expect(ledger.admit(key, 6).outcome).toBe('too-large');
    expect(ledger.admit(key, 5).outcome).toBe('admitted');
  });
});

it('forgets the least recently used account when it holds too many', () => {
  ledger = createMemoryLedger({ now: () => now, capacity: 3 });
  for (const id of ['a', 'b', 'c']) ledger.admit(account(5, 5, id), 5);
  ledger.admit(account(5, 5, 'a'), 0);
  ledger.admit(account(5, 5, 'd'), 5);
  expect(ledger.admit(account(5, 5, 'a'), 1).outcome).toBe('refused');
  expect(ledger.admit(account(5, 5, 'b'), 1).outcome).toBe('admitted');
  expect(ledger.list()).toHaveLength(3);
});
