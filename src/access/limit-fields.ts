import { toWallTime } from '../clock.js';
import type { UpstreamAnswerHead } from './upstream-key.js';

/** A window, as a response of the upstream states it. */
export interface StatedWindow {
  readonly name: string;
  /** Length in seconds. Null if the response does not state it. */
  readonly seconds: number | null;
  readonly limit: number;
  readonly remaining: number;
  /** When it closes, by `monotonicNow`. */
  readonly resetAt: number;
}

/**
 * Parses the limits that a response states in `RateLimit-Policy` and `RateLimit`, or otherwise in the three
 * `X-RateLimit-*` headers.
 * See https://datatracker.ietf.org/doc/draft-ietf-httpapi-ratelimit-headers/
 * @returns the windows, the shorter first; empty if the response states none
 */
export function parseStatedWindows(
  { header }: Pick<UpstreamAnswerHead, 'header'>,
  now: number,
): readonly StatedWindow[] {
  const trio = parseTrio(header, now);
  const states = parseStates(header('ratelimit'));
  const windows: StatedWindow[] = [];
  for (const { name, q, w } of parsePolicies(header('ratelimit-policy'))) {
    const { r, t } = states.find((state) => state.name === name) ?? NO_STATE;
    // A limit of 0 would refuse everything, for good.
    if (r === undefined || t === undefined || q === 0) continue;
    const resetAt = now + Math.max(1, Math.min(t, w ?? DAY, DAY)) * 1_000;
    // Both headers round up, X-RateLimit-Reset to a full second of the clock. The earlier time is therefore more exact,
    // and never further away than the length of the window.
    const isTrio = trio?.limit === q && Math.abs(trio.resetAt - resetAt) < CLOCK_TOLERANCE_MS;
    const closest = isTrio ? Math.min(trio.resetAt, resetAt) : resetAt;
    windows.push({ name, seconds: w ?? null, limit: q, remaining: Math.min(r, q), resetAt: closest });
  }
  return windows.length === 0 && trio ? [trio] : windows;
}

/** A smaller difference between two clocks is ignored, because `Date` has a resolution of one second. */
const CLOCK_TOLERANCE_MS = 2_000;

function parseTrio(header: UpstreamAnswerHead['header'], now: number): StatedWindow | undefined {
  const limit = toCount(header('x-ratelimit-limit'));
  const remaining = toCount(header('x-ratelimit-remaining'));
  const reset = toCount(header('x-ratelimit-reset'));
  if (!limit || remaining === undefined || reset === undefined) return undefined;
  const date = parseDate(header('date'));
  const resetAt = toResetAt(reset, date, now);
  return { name: 'default', seconds: null, limit, remaining: Math.min(remaining, limit), resetAt };
}

/** The longest window of a limit, in seconds. */
const DAY = 86_400;

/**
 * Converts `X-RateLimit-Reset`, which is in Unix seconds of the clock that `Date` shows. If that makes no sense, `Date` may
 * be wrong, or the upstream may state Unix milliseconds, or the seconds that are left.
 */
function toResetAt(reset: number, date: number, now: number): number {
  // The upstream's clock, or that of this machine, may differ from `monotonicNow`.
  const steps = toWallTime(now) - now;
  const difference = Number.isNaN(date) ? steps : date - now;
  const resetAt = reset * 1_000 - (Math.abs(difference) < CLOCK_TOLERANCE_MS ? 0 : difference);
  const latest = now + DAY * 1_000;
  if (resetAt <= latest && now - resetAt < DAY * 1_000) return Math.max(resetAt, now + 1_000);
  const others = [reset * 1_000 - steps, reset - steps, now + reset * 1_000];
  return others.find((time) => time > now && time <= latest) ?? latest;
}

/** The shortest wait after a 429, in seconds. It is also the wait after a 429 that states none. */
const LEAST_WAIT = 1;
/** The longest wait until windows reset, if the upstream does not state how long to wait. Then one request is tried. */
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

/** Returns the wait in seconds after a 429: `Retry-After`, or otherwise until every exhausted window has reset. */
export function parseWait(answer: Pick<UpstreamAnswerHead, 'header'>, now: number): number {
  const resets = parseStatedWindows(answer, now).flatMap(({ remaining, resetAt }) => (remaining === 0 ? resetAt : []));
  const guess = Math.min(Math.ceil((Math.max(now, ...resets) - now) / 1_000), LONGEST_GUESS);
  return Math.max(LEAST_WAIT, parseRetryAfter(answer, now) ?? guess);
}

/** Every HTTP date begins with a weekday. `Date.parse` alone would accept much more. */
const HTTP_DATE = /^\s*(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)/;

function toSeconds(value: string | undefined, sentAt: string | undefined, now: number): number | undefined {
  const date = value !== undefined && HTTP_DATE.test(value) ? Date.parse(value) : NaN;
  if (Number.isNaN(date)) return undefined;
  const waits = [parseDate(sentAt), toWallTime(now)].map((from) => Math.ceil((date - from) / 1_000));
  return Math.max(0, waits.find((wait) => Math.abs(wait) <= DAY) ?? (waits[1] as number));
}

function toCount(text: string | undefined): number | undefined {
  return text !== undefined && /^\s*\d{1,15}\s*$/.test(text) ? Number(text) : undefined;
}

/** The last date parsed. Dates change only once a second. */
let lastDate = { field: '', time: NaN };

function parseDate(field = ''): number {
  if (field !== lastDate.field) lastDate = { field, time: Date.parse(field) };
  return lastDate.time;
}

/** A list item with its numeric parameters. */
type Item = { readonly name: string } & Readonly<Record<string, number | undefined>>;
interface State {
  readonly name: string;
  readonly r?: number | undefined;
  readonly t?: number | undefined;
}
interface Policy {
  readonly name: string;
  readonly q: number;
  readonly w: number | undefined;
}

const NO_STATE: Partial<State> = {};

/**
 * The name of a window. Clients receive it, so it must be printable ASCII:
 * https://www.rfc-editor.org/rfc/rfc9651#section-3.3.3
 */
const NAME = /"([ !#-[\]-~]*)"/.source;

/**
 * One or two windows in the form that this program and most others write. Matching this form is faster than searching
 * for parameters, and almost every response has it.
 */
const STATES = new RegExp(`^${NAME};r=(\\d{1,15});t=(\\d{1,15})(?:, ${NAME};r=(\\d{1,15});t=(\\d{1,15}))?$`);

function parseStates(field: string | undefined): readonly State[] {
  const match = field === undefined ? null : STATES.exec(field);
  if (!match) return parseItems(field);
  const [, name = '', r, t, secondName, secondR, secondT] = match;
  const first = { name, r: Number(r), t: Number(t) };
  return secondName === undefined ? [first] : [first, { name: secondName, r: Number(secondR), t: Number(secondT) }];
}

/** One item of a list such as `"minute";q=60;w=60, "day";q=1000;w=86400`, and one parameter of an item. */
const ITEM = new RegExp(`(?:^|,)\\s*${NAME}([^,]*)`, 'g');
const PARAMETER = /;\s*(\w+)\s*=\s*(\d{1,15})\s*(?=;|$)/g;

/** The last policies parsed. Nearly every response has the same ones. */
let lastPolicies: { readonly field: string | undefined; readonly policies: readonly Policy[] } = {
  field: undefined,
  policies: [],
};

/** Parses the policies of a response, the shorter window first. */
function parsePolicies(field: string | undefined): readonly Policy[] {
  if (field !== lastPolicies.field) {
    const policies = parseItems(field).flatMap(({ name, q, w }) => (q === undefined ? [] : [{ name, q, w }]));
    lastPolicies = { field, policies: policies.sort((a, b) => (a.w ?? Infinity) - (b.w ?? Infinity)) };
  }
  return lastPolicies.policies;
}

/** Parses a list of named items and their numeric parameters. */
function parseItems(field: string | undefined): readonly Item[] {
  if (field === undefined) return [];
  const items: Item[] = [];
  for (const [, name = '', rest = ''] of field.matchAll(ITEM)) {
    const parameters: Record<string, number> = {};
    for (const [, key = '', value] of rest.matchAll(PARAMETER)) parameters[key] = Number(value);
    items.push({ ...parameters, name } as Item);
  }
  return items;
}
