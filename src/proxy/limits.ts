import { parseList, type Parameters } from 'structured-headers';
import type { WindowState } from '../access/ledger.js';
import type { UpstreamAnswerHead } from '../access/session.js';
import { toWallTime } from '../clock.js';

type Head = Pick<UpstreamAnswerHead, 'header'>;
type Items = ReadonlyMap<string, Parameters>;

export type ParseLimits = ReturnType<typeof createLimitsParser>;

/** The longest time that a reset or a wait may be away, in seconds. */
const DAY = 86_400;
/** Longer headers are ignored: those of a store have about a hundred characters. */
const MAX_LENGTH = 2_000;

/** Creates the function that parses the limits of responses. It keeps the last policy, because most keys have the same. */
export function createLimitsParser() {
  let last: { readonly text: string; readonly items: Items } = { text: '', items: new Map() };

  /**
   * Parses the limits that a response states in `RateLimit-Policy` and `RateLimit`, or otherwise in `X-RateLimit-*`.
   * Numbers that make no sense are ignored: https://datatracker.ietf.org/doc/draft-ietf-httpapi-ratelimit-headers/
   * @returns the windows, the shorter first; empty if the response states none
   */
  return (answer: Head, now: number): readonly WindowState[] => {
    const states = parseItems(answer.header('ratelimit') ?? '');
    const text = answer.header('ratelimit-policy') ?? '';
    if (text !== last.text) last = { text, items: parseItems(text) };
    const windows: WindowState[] = [];
    for (const [name, policy] of last.items) {
      const state = states.get(name);
      const [limit, seconds = null] = [toCount(policy.get('q')), toCount(policy.get('w'))];
      const remaining = toCount(state?.get('r'));
      const left = toCount(state?.get('t')) ?? seconds;
      // A limit of 0 would refuse everything, for good.
      if (!limit || remaining === undefined || left === null) continue;
      const resetAt = now + Math.max(1, Math.min(left, seconds ?? DAY, DAY)) * 1_000;
      windows.push({ name, seconds, limit, remaining: Math.min(remaining, limit), resetAt });
    }
    if (windows.length === 0) return parseTrio(answer, now);
    return windows.sort((a, b) => (a.seconds ?? Infinity) - (b.seconds ?? Infinity));
  };
}

function parseTrio(answer: Head, now: number): readonly WindowState[] {
  const [limit, remaining, reset] = ['limit', 'remaining', 'reset'].map((part) =>
    parseCount(answer.header(`x-ratelimit-${part}`)),
  );
  if (!limit || remaining === undefined || reset === undefined) return [];
  const leftMs = reset * 1_000 - findSendTime(answer, now);
  if (Math.abs(leftMs) > DAY * 1_000) return [];
  const resetAt = now + Math.max(leftMs, 1_000);
  return [{ name: 'default', seconds: null, limit, remaining: Math.min(remaining, limit), resetAt }];
}

/**
 * Returns the parameters of each item in a list such as `"minute";q=60;w=60, "day";q=1000;w=86400`, by its name. A field
 * that is malformed anywhere is ignored: https://www.rfc-editor.org/rfc/rfc9651#section-4.2
 */
function parseItems(text: string): Items {
  const items = new Map<string, Parameters>();
  if (text === '' || text.length > MAX_LENGTH) return items;
  try {
    for (const [name, parameters] of parseList(text)) {
      const unit: unknown = parameters.get('qu') ?? 'requests';
      if (typeof name === 'string' && unit === 'requests') items.set(name, parameters);
    }
  } catch {
    // Only parseList throws, before the first item.
  }
  return items;
}

function toCount(value: unknown): number | undefined {
  return Number.isSafeInteger(value) && (value as number) >= 0 ? (value as number) : undefined;
}

function parseCount(text: string | undefined): number | undefined {
  return text !== undefined && /^\d{1,15}$/.test(text) ? Number(text) : undefined;
}

/**
 * Parses `Retry-After`, a number of seconds or an HTTP date: https://www.rfc-editor.org/rfc/rfc9110#section-10.2.3
 * @returns the wait in seconds, at most a day; undefined without a valid header
 */
export function parseRetryAfter(answer: Head, now: number): number | undefined {
  const value = answer.header('retry-after');
  if (value === undefined) return undefined;
  // `Date.parse` accepts much more, but every HTTP date begins with a weekday.
  const date = /^(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)/.test(value) ? Date.parse(value) : NaN;
  const seconds = parseCount(value) ?? Math.ceil((date - findSendTime(answer, now)) / 1_000);
  return Number.isNaN(seconds) ? undefined : Math.min(DAY, Math.max(0, seconds));
}

/** When a response was sent, by the clock of the upstream, which may differ: the times that it states are of that clock. */
function findSendTime(answer: Head, now: number): number {
  return Date.parse(answer.header('date') ?? '') || toWallTime(now);
}
