import { describe, expect, it } from 'vitest';
import { parseStatedWindows } from '../../src/access/limit-fields.js';

const NOW = Date.UTC(2026, 10, 21);

function parse(headers: Readonly<Record<string, string>>) {
  return parseStatedWindows({ header: (name) => headers[name] }, NOW);
}

const POLICY = '"minute";q=60;w=60, "day";q=1000;w=86400';
const MINUTE = { name: 'minute', seconds: 60, limit: 60, remaining: 57, resetAt: NOW + 42_000 };
const DAY = { name: 'day', seconds: 86_400, limit: 1_000, remaining: 997, resetAt: NOW + 86_300_000 };

describe('the limits that an answer states', () => {
  it.each([
    '"minute";r=57;t=42, "day";r=997;t=86300',
    '"day";r=997;t=86300, "minute";r=57;t=42',
    '"minute"; r=57; t=42,"day";t=86300;r=997',
    '"minute";r=57;t=42;x=1, "day";r=997;t=86300',
    ' "minute";r=57;t=42, "other";r=1;t=1, "day";r=997;t=86300',
  ])('are read from %s', (state) => {
    expect(parse({ 'ratelimit-policy': POLICY, ratelimit: state })).toEqual([MINUTE, DAY]);
  });

  it('begin with the shorter window, in whatever order they come', () => {
    const windows = parse({
      'ratelimit-policy': '"day";q=1000;w=86400, "minute";q=60;w=60',
      ratelimit: '"day";r=997;t=86300, "minute";r=57;t=42',
    });
    expect(windows).toEqual([MINUTE, DAY]);
  });

  it.each([
    ['"minute";r=57;t=42', [MINUTE]],
    ['"minute";r=57, "day";r=997;t=86300', [DAY]],
    ['"minute";r=-1;t=42, "day";r=997;t=86300', [DAY]],
    ['"minute";r=1e3;t=42', []],
    ['"name";r=57;t=42', []],
    ['', []],
  ])('are those that are whole in %s', (state, windows) => {
    expect(parse({ 'ratelimit-policy': POLICY, ratelimit: state })).toEqual(windows);
  });

  // https://www.rfc-editor.org/rfc/rfc9651#section-3.3.3, but for escapes, which nobody names a window with
  it.each(['mïnute', 'min\tute', 'min\rute', 'min\nX: 1', 'min\u007fute', 'min\\ute', '分'])(
    'are those alone whose name is printable ASCII, and not %j, since the name is passed on in a header',
    (name) => {
      const policy = `"${name}";q=60;w=60, "day";q=1000;w=86400`;
      for (const state of [`"${name}";r=57;t=42, "day";r=997;t=86300`, `"day";r=997;t=86300, "${name}";r=57;t=42`]) {
        expect(parse({ 'ratelimit-policy': policy, ratelimit: state })).toEqual([DAY]);
      }
      expect(parse({ 'ratelimit-policy': `"${name}";q=60;w=60`, ratelimit: `"${name}";r=57;t=42` })).toEqual([]);
    },
  );

  it('are those of the trio, by its clock, where there is nothing else', () => {
    const trio = {
      'x-ratelimit-limit': '60',
      'x-ratelimit-remaining': '57',
      'x-ratelimit-reset': String(NOW / 1_000 + 90),
    };
    const window = { name: 'default', seconds: null, limit: 60, remaining: 57 };
    expect(parse(trio)).toEqual([{ ...window, resetAt: NOW + 90_000 }]);
    expect(parse({ ...trio, date: new Date(NOW + 60_000).toUTCString() })).toEqual([
      { ...window, resetAt: NOW + 30_000 },
    ]);
    expect(parse({ ...trio, date: 'yesterday' })).toEqual([{ ...window, resetAt: NOW + 90_000 }]);
    expect(parse({ ...trio, 'x-ratelimit-reset': 'soon' })).toEqual([]);
  });

  it('take the closer reset of the two ways to say it', () => {
    const trio = {
      'x-ratelimit-limit': '60',
      'x-ratelimit-remaining': '57',
      'x-ratelimit-reset': String(NOW / 1_000 + 41),
    };
    const windows = parse({
      ...trio,
      'ratelimit-policy': POLICY,
      ratelimit: '"minute";r=57;t=42, "day";r=997;t=86300',
    });
    expect(windows).toEqual([{ ...MINUTE, resetAt: NOW + 41_000 }, DAY]);
  });
});
