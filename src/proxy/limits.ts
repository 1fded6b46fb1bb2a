import { parseList } from 'structured-headers';
import { MAX_WINDOWS, type WindowState } from '../access/ledger.js';
import type { UpstreamAnswerHead } from '../access/session.js';
import { toWallTime } from '../clock.js';

type Head = Pick<UpstreamAnswerHead, 'header'>;

export type ParseLimits = ReturnType<typeof createLimitsParser>;

/** The longest time that a reset or a wait may be away, in seconds. */
const DAY = 86_400;
/** Those of a store have about a hundred characters. */
const MAX_LENGTH = 2_000;

/**
 * Creates the function that parses the limits of responses, from `RateLimit-Policy` and `RateLimit`, or otherwise from
 * `X-RateLimit-*`. Numbers that make no sense are ignored:
 * https://datatracker.ietf.org/doc/draft-ietf-httpapi-ratelimit-headers/
 */
export function createLimitsParser() {
  const parsePolicies = rememberLast((text) =>
    [...parseItems(text)].sort(([, a], [, b]) => (a.w ?? Infinity) - (b.w ?? Infinity)).slice(0, MAX_WINDOWS),
  );
  const parseStates = rememberLast(parseItems);

  /** Returns the windows, the shorter first; none if the response states none. */
  return (answer: Head, now: number): readonly WindowState[] => {
    const states = parseStates(answer.header('ratelimit') ?? '');
    const windows: WindowState[] = [];
    for (const [name, { q: limit, w: seconds = null }] of parsePolicies(answer.header('ratelimit-policy') ?? '')) {
      const { r: remaining, t: left = seconds } = states.get(name) ?? {};
      // A limit of 0 would refuse everything, for good. A window of 0 seconds is none.
      if (!limit || seconds === 0 || remaining === undefined || left === null) continue;
      // It ends after its own length at the latest.
      if (left > Math.min(seconds ?? DAY, DAY)) continue;
      const resetAt = now + Math.max(1, left) * 1_000;
      windows.push({ name, seconds, limit, remaining: Math.min(remaining, limit), resetAt });
    }
    if (windows.length > 0) return windows;
    const limit = parseCount(answer.header('x-ratelimit-limit'));
    const remaining = parseCount(answer.header('x-ratelimit-remaining'));
    const leftMs = (parseCount(answer.header('x-ratelimit-reset')) ?? NaN) * 1_000 - toWallTime(now);
    if (!limit || remaining === undefined || !(Math.abs(leftMs) <= DAY * 1_000)) return windows;
    const resetAt = now + Math.max(leftMs, 1_000);
    return [{ name: 'default', seconds: null, limit, remaining: Math.min(remaining, limit), resetAt }];
  };
}

function rememberLast<T>(parse: (text: string) => T): (text: string) => T {
  let last = { text: '', parsed: parse('') };
  return (text) => {
    if (text !== last.text) last = { text, parsed: parse(text) };
    return last.parsed;
  };
}

/**
 * Returns the counts in a list such as `"minute";q=60;w=60, "day";q=1000;w=86400`, by the names of its items. A field that
 * is malformed anywhere is ignored: https://www.rfc-editor.org/rfc/rfc9651#section-4.2
 */
function parseItems(text: string): ReadonlyMap<string, Readonly<Record<string, number>>> {
  const items = new Map<string, Record<string, number>>();
  if (text === '' || text.length > MAX_LENGTH) return items;
  try {
    for (const [name, parameters] of parseList(text)) {
      const unit: unknown = parameters.get('qu') ?? 'requests';
      const counts = [...parameters].filter(([, value]) => Number.isSafeInteger(value) && (value as number) >= 0);
      if (typeof name === 'string' && unit === 'requests') items.set(name, Object.fromEntries(counts));
    }
  } catch {
    // It is malformed.
  }
  return items;
}

function parseCount(text: string | undefined): number | undefined {
  return text !== undefined && /^\d{1,15}$/.test(text) ? Number(text) : undefined;
}

/**
 * Parses `Retry-After`: https://www.rfc-editor.org/rfc/rfc9110#section-10.2.3
 * @returns seconds, at most a day; undefined without a valid header
 */
export function parseRetryAfter(answer: Head, now: number): number | undefined {
  const value = answer.header('retry-after');
  if (value === undefined) return undefined;
  // `Date.parse` accepts much more, but every HTTP date begins with a weekday. One of its three forms lacks the zone.
  const date = /^(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)/.test(value) ? Date.parse(value.replace(/ GMT$|$/, ' GMT')) : NaN;
  const seconds = /^\d+$/.test(value) ? Number(value) : Math.ceil((date - toWallTime(now)) / 1_000);
  return Number.isNaN(seconds) ? undefined : Math.min(DAY, Math.max(0, seconds));
}
