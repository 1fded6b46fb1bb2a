import type { WindowState } from '../access/ledger.js';

/**
 * The limit headers of an answer: the trio of the interface document, for the window with the fewest requests left, and
 * both windows in the form of https://datatracker.ietf.org/doc/draft-ietf-httpapi-ratelimit-headers/.
 * @param windows - the windows, the shorter first; empty: nothing is known, so nothing is said
 * @param now - milliseconds since the epoch
 */
export function formatLimitHeaders(windows: readonly WindowState[], now = Date.now()): Record<string, string> {
  const [first] = windows;
  if (first === undefined) return {};
  const tightest = windows.reduce((least, window) => (window.remaining < least.remaining ? window : least), first);
  return {
    'X-RateLimit-Limit': String(tightest.limit),
    'X-RateLimit-Remaining': String(tightest.remaining),
    'X-RateLimit-Reset': String(toUnixSeconds(tightest.resetAt)),
    'RateLimit-Policy': windows
      .map(({ name, limit, seconds }) => `"${name}";q=${limit}${seconds === null ? '' : `;w=${seconds}`}`)
      .join(', '),
    RateLimit: windows
      .map(
        ({ name, remaining, resetAt }) =>
          `"${name}";r=${remaining};t=${Math.max(0, Math.ceil((resetAt - now) / 1_000))}`,
      )
      .join(', '),
  };
}

/** A time in whole Unix seconds, rounded up so that nobody comes back too early. */
export function toUnixSeconds(milliseconds: number): number {
  return Math.ceil(milliseconds / 1_000);
}
