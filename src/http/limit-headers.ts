import type { WindowState } from '../access/ledger.js';

/**
 * Formats the limit headers of an answer: the trio of the interface document, for the window with the fewest requests left,
 * and both windows in the form of https://datatracker.ietf.org/doc/draft-ietf-httpapi-ratelimit-headers/.
 * @param windows - the windows, the shorter first; empty: nothing is known, so nothing is said
 * @param now - milliseconds since the epoch
 * @returns header lines, each with its CRLF
 */
export function formatLimitHeaders(windows: readonly WindowState[], now = Date.now()): string {
  let tightest = windows[0];
  if (tightest === undefined) return '';
  const { heads } = findPolicy(windows);
  let state = '';
  for (let i = 0; i < windows.length; i++) {
    const window = windows[i] as WindowState;
    const { remaining, resetAt } = window;
    if (remaining < tightest.remaining) tightest = window;
    state += `${heads[i]}${remaining};t=${Math.max(0, Math.ceil((resetAt - now) / 1_000))}`;
  }
  const { limit, remaining, resetAt } = tightest;
  return `X-RateLimit-Limit: ${limit}\r\nX-RateLimit-Remaining: ${remaining}\r\nX-RateLimit-Reset: ${toUnixSeconds(resetAt)}${state}\r\n`;
}

/** What the headers of all accounts with the same windows have in common. */
interface Policy {
  readonly windows: readonly Pick<WindowState, 'name' | 'seconds' | 'limit'>[];
  /** What comes before the requests left in each window; for the first that is `RateLimit-Policy` whole as well. */
  readonly heads: readonly string[];
}

/** By the limit of the first window: there are few plans, but an upstream may state any numbers. */
const policies = new Map<number, Policy>();
const MAX_POLICIES = 1_000;

function findPolicy(windows: readonly WindowState[]): Policy {
  const { limit } = windows[0] as WindowState;
  const known = policies.get(limit);
  if (known && isOf(known, windows)) return known;
  const policy = makePolicy(windows);
  if (policies.size >= MAX_POLICIES) policies.clear();
  policies.set(limit, policy);
  return policy;
}

function isOf(policy: Policy, windows: readonly WindowState[]): boolean {
  if (policy.windows.length !== windows.length) return false;
  for (let i = 0; i < windows.length; i++) {
    const one = policy.windows[i] as WindowState;
    const other = windows[i] as WindowState;
    if (one.limit !== other.limit || one.seconds !== other.seconds || one.name !== other.name) return false;
  }
  return true;
}

function makePolicy(windows: readonly WindowState[]): Policy {
  const kept = windows.map(({ name, seconds, limit }) => ({ name, seconds, limit }));
  const items = kept.map(
    ({ name, seconds, limit }) => `"${name}";q=${limit}${seconds === null ? '' : `;w=${seconds}`}`,
  );
  const start = `\r\nRateLimit-Policy: ${items.join(', ')}\r\nRateLimit: `;
  return { windows: kept, heads: kept.map(({ name }, i) => `${i === 0 ? start : ', '}"${name}";r=`) };
}

/** A time in whole Unix seconds, rounded up so that nobody comes back too early. */
export function toUnixSeconds(milliseconds: number): number {
  return Math.ceil(milliseconds / 1_000);
}
