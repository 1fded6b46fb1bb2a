import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { createLimitsParser, parseRetryAfter } from '../../src/proxy/limits.js';

const NOW = Date.UTC(2026, 10, 21);

function parse(headers: Readonly<Record<string, string>>) {
  return createLimitsParser()({ header: (name) => headers[name] }, NOW);
}

const POLICY = '"minute";q=60;w=60, "day";q=1000;w=86400';
const MINUTE = { name: 'minute', seconds: 60, limit: 60, remaining: 57, resetAt: NOW + 42_000 };
const DAY = { name: 'day', seconds: 86_400, limit: 1_000, remaining: 997, resetAt: NOW + 86_300_000 };

describe('limits read from response headers', () => {
  it.each([
    '"minute";r=57;t=42, "day";r=997;t=86300',
    '"day";r=997;t=86300, "minute";r=57;t=42',
    '"minute"; r=57; t=42,"day";t=86300;r=997',
    '"minute";r=57;t=42;x=1, "day";r=997;t=86300',
    ' "minute";r=57;t=42, "other";r=1;t=1, "day";r=997;t=86300',
  ])('are read from %s', (state) => {
    expect(parse({ 'ratelimit-policy': POLICY, ratelimit: state })).toEqual([MINUTE, DAY]);
  });

  it('leave out policies that limit something other than requests', () => {
    const policy = '"bytes";q=10;w=60;qu="content-bytes", "minute";q=60;w=60;qu="requests"';
    expect(parse({ 'ratelimit-policy': policy, ratelimit: '"bytes";r=3;t=50, "minute";r=57;t=42' })).toEqual([MINUTE]);
  });

  it('list the shorter window first, in whatever order the headers do', () => {
    const windows = parse({
      'ratelimit-policy': '"day";q=1000;w=86400, "minute";q=60;w=60',
      ratelimit: '"day";r=997;t=86300, "minute";r=57;t=42',
    });
    expect(windows).toEqual([MINUTE, DAY]);
  });

  it.each([
    ['"minute";r=57;t=42', [MINUTE]],
    ['"minute";r=57, "day";r=997;t=86300', [{ ...MINUTE, resetAt: NOW + 60_000 }, DAY]],
    ['"minute";r=-1;t=42, "day";r=997;t=86300', [DAY]],
    ['"minute";r=1e3;t=42', []],
    ['"name";r=57;t=42', []],
    ['', []],
  ])('include only complete windows: %s', (state, windows) => {
    expect(parse({ 'ratelimit-policy': POLICY, ratelimit: state })).toEqual(windows);
  });

  it.each([
    ['min, "ute"', '"min, \\"ute\\""'],
    ['a;q=1;w=2', '"a;q=1;w=2"'],
    ['min\\ute', '"min\\\\ute"'],
  ])('have any name of printable ASCII: %s', (name, text) => {
    const policy = `${text};q=60;w=60, "day";q=1000;w=86400`;
    const windows = parse({ 'ratelimit-policy': policy, ratelimit: `${text};r=57;t=42, "day";r=997;t=86300` });
    expect(windows).toEqual([{ ...MINUTE, name }, DAY]);
  });

  it.each(['"mïnute"', '"min\tute"', '"min\nX: 1"', '"min\u007fute"', '"min\\ute"', '"分"', '"minute', 'q=60'])(
    'are ignored if a field is malformed anywhere, as RFC 9651 says: %j',
    (name) => {
      const policy = `${name};q=60;w=60, "day";q=1000;w=86400`;
      const state = `${name};r=57;t=42, "day";r=997;t=86300`;
      expect(parse({ 'ratelimit-policy': policy, ratelimit: '"day";r=997;t=86300' })).toEqual([]);
      expect(parse({ 'ratelimit-policy': POLICY, ratelimit: state })).toEqual([]);
    },
  );

  it('are those of each response, also if texts repeat', () => {
    const parseLimits = createLimitsParser();
    const read = (policy: string, ratelimit: string, now: number) =>
      parseLimits({ header: (name) => ({ 'ratelimit-policy': policy, ratelimit })[name] }, now);
    const state = '"minute";r=57;t=42';
    expect(read(POLICY, state, NOW)).toEqual([MINUTE]);
    expect(read(POLICY, state, NOW + 5_000)).toEqual([{ ...MINUTE, resetAt: MINUTE.resetAt + 5_000 }]);
    expect(read(POLICY, '"minute";r=56;t=42', NOW)).toEqual([{ ...MINUTE, remaining: 56 }]);
    expect(read('"minute";q=99;w=60', state, NOW)).toEqual([{ ...MINUTE, limit: 99 }]);
    expect(read('', '', NOW)).toEqual([]);
    expect(read(POLICY, state, NOW)).toEqual([MINUTE]);
  });

  it.each([
    ['many items', '"a";q=1;w=1,'.repeat(5_000)],
    ['a long name', `"${'x'.repeat(60_000)}";q=1;w=1`],
    ['white space', `"a";q=1${' '.repeat(60_000)}`],
    ['brackets', '('.repeat(60_000)],
  ])('take no time to read from %s', (_, text) => {
    const startedAt = performance.now();
    expect(parse({ 'ratelimit-policy': text, ratelimit: text })).toEqual([]);
    expect(performance.now() - startedAt).toBeLessThan(20);
  });

  it('come from X-RateLimit-* if RateLimit is absent', () => {
    const trio = {
      'x-ratelimit-limit': '60',
      'x-ratelimit-remaining': '57',
      'x-ratelimit-reset': String(NOW / 1_000 + 90),
    };
    const window = { name: 'default', seconds: null, limit: 60, remaining: 57 };
    expect(parse(trio)).toEqual([{ ...window, resetAt: NOW + 90_000 }]);
    expect(parse({ ...trio, 'x-ratelimit-reset': 'soon' })).toEqual([]);
  });

  it('have a reset within a second if X-RateLimit-Reset has passed', () => {
    const reset = String(NOW / 1_000 - 30);
    const trio = { 'x-ratelimit-limit': '60', 'x-ratelimit-remaining': '0', 'x-ratelimit-reset': reset };
    expect(parse(trio)).toMatchObject([{ resetAt: NOW + 1_000 }]);
  });

  it.each<[string, string]>([
    ['milliseconds', String(NOW + 30_000)],
    ['seconds that are left', '30'],
    ['a clock that is a year wrong', String(NOW / 1_000 + 30 - 31_536_000)],
    ['the far future', '99999999999999'],
  ])('are ignored if X-RateLimit-Reset makes no sense: %s', (_, reset) => {
    const trio = { 'x-ratelimit-limit': '60', 'x-ratelimit-remaining': '0', 'x-ratelimit-reset': reset };
    expect(parse(trio)).toEqual([]);
  });

  it('have no limit and no window of 0, at most the limit left, and no reset beyond the window or a day', () => {
    const trio = { 'x-ratelimit-limit': '0', 'x-ratelimit-remaining': '0', 'x-ratelimit-reset': '1' };
    expect(parse(trio)).toEqual([]);
    const windows = {
      none: ';q=0;w=60,;r=0;t=9',
      never: ';q=60;w=0,;r=0;t=9',
      late: ';q=60;w=60,;r=0;t=61',
      year: ';q=9;w=31536000,;r=1;t=31536000',
      minute: ';q=60;w=60,;r=99;t=60',
    };
    const write = (part: 0 | 1) =>
      Object.entries(windows)
        .map(([name, text]) => `"${name}"${text.split(',')[part]}`)
        .join();
    const headers = { 'ratelimit-policy': write(0), ratelimit: write(1) };
    expect(parse(headers)).toEqual([{ ...MINUTE, remaining: 60, resetAt: NOW + 60_000 }]);
  });
});

describe('the wait read from response headers', () => {
  it.each<[string, Readonly<Record<string, string>>, seconds: number | undefined]>([
    ['seconds', { 'retry-after': '30' }, 30],
    ['a date', { 'retry-after': 'Sat, 21 Nov 2026 00:01:00 GMT' }, 60],
    ['a date in the form of asctime', { 'retry-after': 'Sat Nov 21 00:01:00 2026' }, 60],
    ['a date in the past', { 'retry-after': 'Fri, 20 Nov 2026 23:00:00 GMT' }, 0],
    ['zero', { 'retry-after': '0' }, 0],
    ['a fraction, which is invalid', { 'retry-after': '60.5' }, undefined],
    ['two values', { 'retry-after': '5, 10' }, undefined],
    ['a negative number', { 'retry-after': '-5' }, undefined],
    ['more than a day', { 'retry-after': '99999999999999' }, 86_400],
    ['a date a year ahead', { 'retry-after': 'Sun, 21 Nov 2027 00:00:00 GMT' }, 86_400],
    ['no header', {}, undefined],
  ])('%s', (_, headers, seconds) => {
    vi.stubEnv('TZ', 'Asia/Tokyo');
    onTestFinished(() => void vi.unstubAllEnvs());
    expect(parseRetryAfter({ header: (name: string) => headers[name] }, NOW)).toBe(seconds);
  });
});
