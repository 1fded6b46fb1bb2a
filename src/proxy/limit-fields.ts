import type { WindowState } from '../access/ledger.js';
import type { UpstreamAnswerHead } from '../access/session.js';
import { toWallTime } from '../clock.js';

/**
 * Parses the limits that a response states in `RateLimit-Policy` and `RateLimit`, or otherwise in the three
 * `X-RateLimit-*` headers.
 * See https://datatracker.ietf.org/doc/draft-ietf-httpapi-ratelimit-headers/
 * @returns the windows, the shorter first; empty if the response states none
 */
export function parseStatedWindows(
  { header }: Pick<UpstreamAnswerHead, 'header'>,
  now: number,
): readonly WindowState[] {
  const trio = parseTrio(header, now);
  const states = parseItems(header('ratelimit'));
  const windows: WindowState[] = [];
  for (const [name, policy] of parseItems(header('ratelimit-policy'))) {
    const state = states.get(name);
    const limit = toCount(policy.match(QUOTA)?.[1]);
    const seconds = toCount(policy.match(WINDOW)?.[1]);
    const remaining = toCount(state?.match(REMAINING)?.[1]);
    const left = toCount(state?.match(TIME_LEFT)?.[1]) ?? seconds;
    // A limit of 0 would refuse everything, for good.
    if (!limit || remaining === undefined || left === undefined) continue;
    const resetAt = now + Math.max(1, Math.min(left, seconds ?? DAY, DAY)) * 1_000;
    // Both headers round up, X-RateLimit-Reset to a full second of the clock. The earlier time is therefore more exact,
    // and never further away than the length of the window.
    const isTrio = trio?.limit === limit && Math.abs(trio.resetAt - resetAt) < CLOCK_TOLERANCE_MS;
    const closest = isTrio ? Math.min(trio.resetAt, resetAt) : resetAt;
    windows.push({ name, seconds: seconds ?? null, limit, remaining: Math.min(remaining, limit), resetAt: closest });
  }
  windows.sort((a, b) => (a.seconds ?? Infinity) - (b.seconds ?? Infinity));
  return windows.length === 0 && trio ? [trio] : windows;
}

/** A smaller difference between two clocks is ignored, because `Date` has a resolution of one second. */
const CLOCK_TOLERANCE_MS = 2_000;

function parseTrio(header: UpstreamAnswerHead['header'], now: number): WindowState | undefined {
  const limit = toCount(header('x-ratelimit-limit'));
  const remaining = toCount(header('x-ratelimit-remaining'));
  const reset = toCount(header('x-ratelimit-reset'));
  if (!limit || remaining === undefined || reset === undefined) return undefined;
  const date = Date.parse(header('date') ?? '');
  const resetAt = toResetAt(reset, date, now);
  return { name: 'default', seconds: null, limit, remaining: Math.min(remaining, limit), resetAt };
}

/** The longest window of a limit, in seconds. */
const DAY = 86_400;

/**
 * Converts `X-RateLimit-Reset`, which is in Unix seconds of the clock that `Date` shows. If that makes no sense, `Date`
 * may be wrong, or the upstream may state Unix milliseconds, or the seconds that are left.
 */
function toResetAt(reset: number, date: number, now: number): number {
  // The upstream's clock, or that of this machine, may differ from `monotonicNow`.
  const steps = toWallTime(now) - now;
  const difference = Number.isNaN(date) ? steps : date - now;
  const resetAt = reset * 1_000 - (Math.abs(difference) < CLOCK_TOLERANCE_MS ? 0 : difference);
  const latest = now + DAY * 1_000;
  if (resetAt <= latest && now - resetAt < DAY * 1_000) return Math.max(resetAt, now + 1_000);
  const others = [reset * 1_000 - steps, reset - steps, now + reset * 1_000];
  return others.find((time) => time >= now && time <= latest) ?? latest;
}

/** The shortest wait after a 429, in seconds. It is also the wait after a 429 that states none. */
const LEAST_WAIT = 1;
/** The longest wait, in seconds, if the upstream does not state it. Then one request is tried. */
const LONGEST_GUESS = 60;

/**
 * Parses `Retry-After`, which is a number of seconds or an HTTP date. Clocks differ, so the wait until a date is
 * measured from the `Date` of the same response, if it has one and the result makes sense.
 * See https://www.rfc-editor.org/rfc/rfc9110#section-10.2.3
 * @returns the wait in seconds, at most a day; undefined without a valid header
 */
export function parseRetryAfter({ header }: Pick<UpstreamAnswerHead, 'header'>, now: number): number | undefined {
  const value = header('retry-after');
  const seconds = toCount(value) ?? toSeconds(value, header('date'), now);
  return seconds === undefined ? undefined : Math.min(seconds, DAY);
}

/**
 * Returns the wait in seconds after a 429: `Retry-After`, or otherwise until every exhausted window has reset, at most a
 * minute.
 */
export function parseWait(answer: Pick<UpstreamAnswerHead, 'header'>, now: number): number {
  const exhausted = parseStatedWindows(answer, now).filter(({ remaining }) => remaining === 0);
  const reset = Math.max(now, ...exhausted.map(({ resetAt }) => resetAt));
  const guess = Math.min(Math.ceil((reset - now) / 1_000), LONGEST_GUESS);
  return Math.max(LEAST_WAIT, parseRetryAfter(answer, now) ?? guess);
}

/** Every HTTP date begins with a weekday. `Date.parse` alone would accept much more. */
const HTTP_DATE = /^\s*(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)/;

function toSeconds(value: string | undefined, sentAt: string | undefined, now: number): number | undefined {
  const date = value !== undefined && HTTP_DATE.test(value) ? Date.parse(value) : NaN;
  if (Number.isNaN(date)) return undefined;
  const waits = [Date.parse(sentAt ?? ''), toWallTime(now)].map((from) => Math.ceil((date - from) / 1_000));
  return Math.max(0, waits.find((wait) => Math.abs(wait) <= DAY) ?? (waits[1] as number));
}

function toCount(text: string | undefined): number | undefined {
  return text !== undefined && /^\s*\d{1,15}\s*$/.test(text) ? Number(text) : undefined;
}

/**
 * One item of a list such as `"minute";q=60;w=60, "day";q=1000;w=86400`. Clients receive the name, so it must be
 * printable ASCII: https://www.rfc-editor.org/rfc/rfc9651#section-3.3.3
 */
const ITEM = /(?:^|,)\s*"([ !#-[\]-~]*)"([^,]*)/g;
/** The unit of a policy that does not limit requests. */
const OTHER_UNIT = /;\s*qu\s*=\s*"(?!requests")/;

const QUOTA = toParameter('q');
const WINDOW = toParameter('w');
const REMAINING = toParameter('r');
const TIME_LEFT = toParameter('t');

function toParameter(name: string): RegExp {
  return new RegExp(`;\\s*${name}\\s*=\\s*(\\d{1,15})\\s*(?=;|$)`);
}

/** Returns the parameters of each item, by its name. */
function parseItems(text: string | undefined): ReadonlyMap<string, string> {
  const items = new Map<string, string>();
  for (const [, name = '', parameters = ''] of text?.matchAll(ITEM) ?? []) {
    if (!OTHER_UNIT.test(parameters)) items.set(name, parameters);
  }
  return items;
}
