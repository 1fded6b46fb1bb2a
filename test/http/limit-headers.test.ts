import { expect, it } from 'vitest';
import type { WindowState } from '../../src/access/ledger.js';
import { addLimitHeaders } from '../../src/http/reply.js';

const now = Date.UTC(2026, 0, 1);

function limitHeaders(windows: readonly WindowState[]): readonly string[] {
  const headers: string[] = [];
  addLimitHeaders(headers, windows, now);
  return headers;
}

it.each([
  [
    'the minute is tightest',
    { minute: [57, 41_001], day: [997, 86_300_000] },
    [
      ['X-RateLimit-Limit', '60'],
      ['X-RateLimit-Remaining', '57'],
      ['X-RateLimit-Reset', '1767225642'],
      ['RateLimit-Policy', '"minute";q=60;w=60, "day";q=1000;w=86400'],
      ['RateLimit', '"minute";r=57;t=42, "day";r=997;t=86300'],
    ],
  ],
  [
    'the day is tightest',
    { minute: [60, 60_000], day: [3, 5] },
    [
      ['X-RateLimit-Limit', '1000'],
      ['X-RateLimit-Remaining', '3'],
      ['X-RateLimit-Reset', '1767225601'],
      ['RateLimit-Policy', '"minute";q=60;w=60, "day";q=1000;w=86400'],
      ['RateLimit', '"minute";r=60;t=60, "day";r=3;t=1'],
    ],
  ],
] as const)('describes both windows when %s', (_, { minute, day }, expected) => {
  const windows = [
    { name: 'minute', seconds: 60, limit: 60, remaining: minute[0], resetAt: now + minute[1] },
    { name: 'day', seconds: 86_400, limit: 1_000, remaining: day[0], resetAt: now + day[1] },
  ] as const;
  expect(limitHeaders(windows)).toEqual(expected.flat());
});

it('has no reset beyond the length of its window, although the clock of Redis may be ahead', () => {
  const window = { name: 'minute', seconds: 60, limit: 60, remaining: 59, resetAt: now + 60_900 } as const;
  expect(limitHeaders([window])).toContain('"minute";r=59;t=60');
});

it('describes a window of unknown length after its end', () => {
  const window = { name: 'default', seconds: null, limit: 9, remaining: 0, resetAt: now - 1 } as const;
  expect(limitHeaders([window])).toEqual([
    ...['X-RateLimit-Limit', '9', 'X-RateLimit-Remaining', '0', 'X-RateLimit-Reset', '1767225600'],
    ...['RateLimit-Policy', '"default";q=9', 'RateLimit', '"default";r=0;t=0'],
  ]);
});

it('returns no headers if the limits are unknown', () => {
  expect(limitHeaders([])).toEqual([]);
});
