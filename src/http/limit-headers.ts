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
  let policy = '';
  let state = '';
  for (const window of windows) {
    const { name, limit, seconds, remaining, resetAt } = window;
    if (remaining < tightest.remaining) tightest = window;
    const separator = policy === '' ? '' : ', ';
    policy += `${separator}"${name}";q=${limit}${seconds === null ? '' : `;w=${seconds}`}`;
    state += `${separator}"${name}";r=${remaining};t=${Math.max(0, Math.ceil((resetAt - now) / 1_000))}`;
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

/** A time in whole Unix seconds, rounded up so that nobody comes back too early. */
export function toUnixSeconds(milliseconds: number): number {
  return Math.ceil(milliseconds / 1_000);
}
