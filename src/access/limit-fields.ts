import type { UpstreamAnswerHead } from './upstream-key.js';

/** A window as an answer of another store states it. */
export interface StatedWindow {
  readonly name: string;
  /** Length in seconds; null when the answer does not say. */
  readonly seconds: number | null;
  readonly limit: number;
  readonly remaining: number;
  /** When it closes, in milliseconds since the epoch, by our clock. */
  readonly resetAt: number;
}

/**
 * Reads the limits that an answer states: `RateLimit-Policy` and `RateLimit`
 * (https://datatracker.ietf.org/doc/draft-ietf-httpapi-ratelimit-headers/), else the `X-RateLimit-*` trio.
 * @returns the windows, the shorter first; empty when the answer states none
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
    if (r === undefined || t === undefined) continue;
    const resetAt = now + t * 1_000;
    // Both are rounded up, the trio to the second of the clock: the earlier one is closer, and never beyond the window.
    const isTrio = trio?.limit === q && Math.abs(trio.resetAt - resetAt) < CLOCK_TOLERANCE_MS;
    const closest = isTrio ? Math.min(trio.resetAt, resetAt) : resetAt;
    windows.push({ name, seconds: w ?? null, limit: q, remaining: r, resetAt: closest });
  }
  return windows.length === 0 && trio ? [trio] : windows;
}

/** Clocks that differ by less are taken as the same: the `Date` of an answer has whole seconds. */
const CLOCK_TOLERANCE_MS = 2_000;

function parseTrio(header: UpstreamAnswerHead['header'], now: number): StatedWindow | undefined {
  const limit = toCount(header('x-ratelimit-limit'));
  const remaining = toCount(header('x-ratelimit-remaining'));
  const reset = toCount(header('x-ratelimit-reset'));
  if (limit === undefined || remaining === undefined || reset === undefined) return undefined;
  const date = parseDate(header('date'));
  const ahead = Math.abs(date - now) < CLOCK_TOLERANCE_MS || Number.isNaN(date) ? 0 : date - now;
  return { name: 'default', seconds: null, limit, remaining, resetAt: reset * 1_000 - ahead };
}

/** The wait in seconds after a 429 that states none, and the shortest that is kept after any. */
const LEAST_WAIT = 1;
/** The longest wait that is believed, in seconds: a year. */
const LONGEST_WAIT = 31_536_000;

/**
 * The wait that a `Retry-After` header asks for, in seconds, a year at the most; undefined when it has none.
 * https://www.rfc-editor.org/rfc/rfc9110#section-10.2.3: a number of seconds or an HTTP date, which begins with a weekday
 * and is counted from the answer's own `Date` where it has one, since clocks differ
 */
export function parseRetryAfter({ header }: Pick<UpstreamAnswerHead, 'header'>, now: number): number | undefined {
  const value = header('retry-after');
  const seconds = toCount(value) ?? toSeconds(value, header('date'), now);
  return seconds === undefined ? undefined : Math.min(seconds, LONGEST_WAIT);
}

/**
 * The wait in seconds after a 429: that of `Retry-After`, else until the windows open again that are stated to be used up.
 */
export function parseWait(answer: Pick<UpstreamAnswerHead, 'header'>, now: number): number {
  const resets = parseStatedWindows(answer, now).flatMap(({ remaining, resetAt }) => (remaining === 0 ? resetAt : []));
  const stated = parseRetryAfter(answer, now) ?? Math.ceil((Math.max(now, ...resets) - now) / 1_000);
  return Math.min(Math.max(LEAST_WAIT, stated), LONGEST_WAIT);
}

const HTTP_DATE = /^\s*(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)/;

function toSeconds(value: string | undefined, sentAt: string | undefined, now: number): number | undefined {
  const date = value !== undefined && HTTP_DATE.test(value) ? Date.parse(value) : NaN;
  if (Number.isNaN(date)) return undefined;
  const from = parseDate(sentAt);
  return Math.max(0, Math.ceil((date - (Number.isNaN(from) ? now : from)) / 1_000));
}

function toCount(text: string | undefined): number | undefined {
  return text !== undefined && /^\s*\d{1,15}\s*$/.test(text) ? Number(text) : undefined;
}

/** The date last read: it changes once a second. */
let lastDate = { field: '', time: NaN };

function parseDate(field = ''): number {
  if (field !== lastDate.field) lastDate = { field, time: Date.parse(field) };
  return lastDate.time;
}

/** An item of a list, with its numeric parameters. */
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

/** A window's name: printable ASCII, as https://www.rfc-editor.org/rfc/rfc9651#section-3.3.3 has it, since it is passed on. */
const NAME = /"([ !#-[\]-~]*)"/.source;

/** How this program and most others write one window or two: read without a search for parameters, since every answer has it. */
const STATES = new RegExp(`^${NAME};r=(\\d{1,15});t=(\\d{1,15})(?:, ${NAME};r=(\\d{1,15});t=(\\d{1,15}))?$`);

function parseStates(field: string | undefined): readonly State[] {
  const match = field === undefined ? null : STATES.exec(field);
  if (!match) return parseItems(field);
  const [, name = '', r, t, secondName, secondR, secondT] = match;
  const first = { name, r: Number(r), t: Number(t) };
  return secondName === undefined ? [first] : [first, { name: secondName, r: Number(secondR), t: Number(secondT) }];
}

/** One item of a list such as `"minute";q=60;w=60, "day";q=1000;w=86400`, and one parameter of it. */
const ITEM = new RegExp(`(?:^|,)\\s*${NAME}([^,]*)`, 'g');
const PARAMETER = /;\s*(\w+)\s*=\s*(\d{1,15})\s*(?=;|$)/g;

/** The policies last read: they are the same in nearly every answer. */
let lastPolicies: { readonly field: string | undefined; readonly policies: readonly Policy[] } = {
  field: undefined,
  policies: [],
};

/** The policies of an answer, the shorter window first. */
function parsePolicies(field: string | undefined): readonly Policy[] {
  if (field !== lastPolicies.field) {
    const policies = parseItems(field).flatMap(({ name, q, w }) => (q === undefined ? [] : [{ name, q, w }]));
    lastPolicies = { field, policies: policies.sort((a, b) => (a.w ?? Infinity) - (b.w ?? Infinity)) };
  }
  return lastPolicies.policies;
}

/** Reads a list of named items, keeping their numeric parameters. */
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
