import { beforeEach, describe, expect, it } from 'vitest';
import type { Account } from '../../src/access/ledger.js';
import { createMemoryLedger, type MemoryLedger } from '../../src/access/memory-ledger.js';
import { toWindows } from '../../src/access/plans.js';

const key: Account = { id: 'key_a', windows: toWindows({ perMinute: 1, perDay: 1 }) };

let now: number;
let ledger: MemoryLedger;

beforeEach(() => {
  now = Date.UTC(2026, 0, 1);
  ledger = createLedger();
  ledger.admit(key, 1);
});

function createLedger(banAfter = 3): MemoryLedger {
  return createMemoryLedger({ now: () => now, banAfter, banSeconds: 300 });
}

function ask(cost = 1): string {
  return ledger.admit(key, cost).outcome;
}

describe('a ban', () => {
  it('starts with the first refusal beyond BAN_AFTER within a minute', () => {
    expect([ask(), ask(), ask()]).toEqual(['refused', 'refused', 'refused']);
    expect(ledger.admit(key, 1)).toMatchObject({ outcome: 'banned', retryAfter: 300 });
  });

  it('refuses every request, including free and too large ones', () => {
    for (let i = 0; i < 4; i++) ask();
    expect([ask(0), ask(1), ask(50)]).toEqual(['banned', 'banned', 'banned']);
  });

  it('counts refusals in a sliding minute, not a calendar minute', () => {
    now += 40_000;
    ask();
    now += 15_000;
    expect([ask(), ask()]).toEqual(['refused', 'refused']);
    now += 44_999;
    expect(ask()).toBe('banned');
  });

  it('ignores refusals that are a minute old', () => {
    expect([ask(), ask(), ask()]).toEqual(['refused', 'refused', 'refused']);
    for (let minute = 0; minute < 5; minute++) {
      now += 60_000;
      expect([ask(), ask(), ask()]).toEqual(['refused', 'refused', 'refused']);
    }
  });

  it('does not count admitted requests', () => {
    const roomy: Account = { id: 'key_b', windows: toWindows({ perMinute: 50, perDay: 50 }) };
    for (let i = 0; i < 50; i++) expect(ledger.admit(roomy, 1).outcome).toBe('admitted');
    expect(ledger.admit(roomy, 1).outcome).toBe('refused');
  });

  it('ends on time, is not extended by requests, and resets the count of refusals', () => {
    for (let i = 0; i < 4; i++) ask();
    now += 299_999;
    expect(ledger.admit(key, 1)).toMatchObject({ outcome: 'banned', retryAfter: 1 });
    now += 1;
    expect([ask(), ask(), ask(), ask()]).toEqual(['refused', 'refused', 'refused', 'banned']);
  });

  it('admits the key again after the ban if its windows have room', () => {
    const minute: Account = { id: 'key_b', windows: toWindows({ perMinute: 1, perDay: 50 }) };
    for (let i = 0; i < 5; i++) ledger.admit(minute, 1);
    expect(ledger.admit(minute, 0)).toMatchObject({
      outcome: 'banned',
      windows: [{ remaining: 0 }, { remaining: 49 }],
    });
    now += 300_000;
    expect(ledger.admit(minute, 1).outcome).toBe('admitted');
  });

  it('affects only one key', () => {
    for (let i = 0; i < 4; i++) ask();
    expect(ledger.admit({ ...key, id: 'key_b' }, 1).outcome).toBe('admitted');
  });

  it('starts with the first refusal if BAN_AFTER is 0', () => {
    ledger = createLedger(0);
    ask();
    expect(ask()).toBe('banned');
  });

  it('never starts if bans are off, and refusals then store nothing', () => {
    ledger = createMemoryLedger({ now: () => now });
    ask();
    const size = JSON.stringify(ledger.list()).length;
    for (let i = 0; i < 10_000; i++) expect(ask()).toBe('refused');
    expect(JSON.stringify(ledger.list())).toHaveLength(size);
  });
});
