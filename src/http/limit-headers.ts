import type { WindowState } from '../access/ledger.js';

/**
 * Adds the limit headers of an answer, names and values in turn: the trio of the interface document, for the window with
 * the fewest requests left, and both windows in the form of
 * https://datatracker.ietf.org/doc/draft-ietf-httpapi-ratelimit-headers/.
 * @param headers - what they are added to
 * @param windows - the windows, the shorter first; empty: nothing is known, so nothing is said
 * @param now - milliseconds since the epoch
 */
export function addLimitHeaders(headers: string[], windows: readonly WindowState[], now = Date.now()): void {
  let tightest = windows[0];
  if (tightest === undefined) return;
  const { text: policy, heads } = findPolicy(windows);
  let state = '';
  for (let i = 0; i < windows.length; i++) {
    const window = windows[i] as WindowState;
    if (window.remaining < tightest.remaining) tightest = window;
    const { remaining, resetAt } = window;
    state += `${heads[i]}${remaining};t=${Math.max(0, Math.ceil((resetAt - now) / 1_000))}`;
  }
  headers.push(
    'X-RateLimit-Limit',
    String(tightest.limit),
    'X-RateLimit-Remaining',
    String(tightest.remaining),
    'X-RateLimit-Reset',
    String(toUnixSeconds(tightest.resetAt)),
    'RateLimit-Policy',
    policy,
    'RateLimit',
    state,
  );
}

/** What the headers of all accounts with the same windows have in common. */
interface Policy {
  readonly windows: readonly Pick<WindowState, 'name' | 'seconds' | 'limit'>[];
  /** The value of `RateLimit-Policy`. */
  readonly text: string;
  /** How the part of each window in `RateLimit` begins. */
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
  return {
    windows: kept,
    text: items.join(', '),
    heads: kept.map(({ name }, i) => `${i === 0 ? '' : ', '}"${name}";r=`),
  };
}

/** A time in whole Unix seconds, rounded up so that nobody comes back too early. */
export function toUnixSeconds(milliseconds: number): number {
  return Math.ceil(milliseconds / 1_000);
}
