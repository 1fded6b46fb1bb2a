import { parseList, type Parameters } from 'structured-headers';
import type { WindowState } from '../access/ledger.js';
import type { UpstreamAnswerHead } from '../access/session.js';
import { toWallTime } from '../clock.js';

type Head = Pick<UpstreamAnswerHead, 'header'>;

/** The longest time that a reset or a wait may be away, in seconds. */
const DAY = 86_400;
/** Longer headers are ignored: those of a store have about a hundred characters. */
const MAX_LENGTH = 2_000;

/**
 * Parses the limits that a response states in `RateLimit-Policy` and `RateLimit`, or otherwise in the three
 * `X-RateLimit-*` headers. Numbers that make no sense are ignored.
 * See https://datatracker.ietf.org/doc/draft-ietf-httpapi-ratelimit-headers/
 * @param parsePolicy - may be memoized, because a policy repeats
 * @returns the windows, the shorter first; empty if the response states none
 */
export function parseStatedWindows(
  { header }: Head,
  now: number,
  parsePolicy: typeof parseItems = parseItems,
): readonly WindowState[] {
  const states = parseItems(header('ratelimit') ?? '');
  const windows: WindowState[] = [];
  for (const [name, policy] of states.size > 0 ? parsePolicy(header('ratelimit-policy') ?? '') : []) {
    const state = states.get(name);
    const [limit, seconds = null] = [toCount(policy.get('q')), toCount(policy.get('w'))];
    const remaining = toCount(state?.get('r'));
    const left = toCount(state?.get('t')) ?? seconds;
    // A limit of 0 would refuse everything, for good.
    if (!limit || remaining === undefined || left === null) continue;
    const resetAt = now + Math.max(1, Math.min(left, seconds ?? DAY, DAY)) * 1_000;
    windows.push({ name, seconds, limit, remaining: Math.min(remaining, limit), resetAt });
  }
  if (windows.length === 0) return parseTrio(header, now);
  return windows.sort((a, b) => (a.seconds ?? Infinity) - (b.seconds ?? Infinity));
}

function parseTrio(header: Head['header'], now: number): readonly WindowState[] {
  const limit = parseCount(header('x-ratelimit-limit'));
  const remaining = parseCount(header('x-ratelimit-remaining'));
  const reset = parseCount(header('x-ratelimit-reset'));
  if (!limit || remaining === undefined || reset === undefined) return [];
  // The reset is in Unix seconds of the clock that `Date` shows.
  const sentAt = Date.parse(header('date') ?? '');
  const resetAt = reset * 1_000 - (Number.isNaN(sentAt) ? toWallTime(now) : sentAt) + now;
  if (Math.abs(resetAt - now) > DAY * 1_000) return [];
  const window = { name: 'default', seconds: null, limit, remaining: Math.min(remaining, limit) };
  return [{ ...window, resetAt: Math.max(resetAt, now + 1_000) }];
}

/**
 * Returns the parameters of each item in a list such as `"minute";q=60;w=60, "day";q=1000;w=86400`, by its name. A field
 * that is malformed anywhere is ignored: https://www.rfc-editor.org/rfc/rfc9651#section-4.2
 */
export function parseItems(text: string): ReadonlyMap<string, Parameters> {
  const items = new Map<string, Parameters>();
  if (text === '' || text.length > MAX_LENGTH) return items;
  try {
    for (const [name, parameters] of parseList(text)) {
      const unit: unknown = parameters.get('qu') ?? 'requests';
      if (typeof name === 'string' && unit === 'requests') items.set(name, parameters);
    }
    return items;
  } catch {
    return new Map();
  }
}

function toCount(value: unknown): number | undefined {
  return Number.isSafeInteger(value) && (value as number) >= 0 ? (value as number) : undefined;
}

function parseCount(text: string | undefined): number | undefined {
  return text !== undefined && /^\d{1,15}$/.test(text) ? Number(text) : undefined;
}

/**
 * Parses `Retry-After`, which is a number of seconds or an HTTP date. Clocks differ, so the wait until a date is
 * measured from the `Date` of the same response, if the result makes sense.
 * See https://www.rfc-editor.org/rfc/rfc9110#section-10.2.3
 * @returns the wait in seconds, at most a day; undefined without a valid header
 */
export function parseRetryAfter({ header }: Head, now: number): number | undefined {
  const value = header('retry-after') ?? '';
  const seconds = parseCount(value);
  if (seconds !== undefined) return Math.min(seconds, DAY);
  // `Date.parse` accepts much more, but every HTTP date begins with a weekday.
  const date = /^(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)/.test(value) ? Date.parse(value) : NaN;
  if (Number.isNaN(date)) return undefined;
  const wait = Math.ceil((date - Date.parse(header('date') ?? '')) / 1_000);
  const isSensible = Math.abs(wait) <= DAY;
  return Math.min(DAY, Math.max(0, isSensible ? wait : Math.ceil((date - toWallTime(now)) / 1_000)));
}

/** The longest wait after a 429, in seconds, if the upstream does not state it. */
const LONGEST_GUESS = 60;

/** Returns the wait in seconds after a 429: `Retry-After`, or until every exhausted window has reset, at least 1. */
export function parseWait(answer: Head, now: number): number {
  const exhausted = parseStatedWindows(answer, now).filter(({ remaining }) => remaining === 0);
  const guess = Math.max(0, ...exhausted.map(({ resetAt }) => Math.ceil((resetAt - now) / 1_000)));
  return Math.max(1, parseRetryAfter(answer, now) ?? Math.min(guess, LONGEST_GUESS));
}
