import type { WindowState } from '../access/ledger.js';
import { monotonicNow, toWallTime } from '../clock.js';

/**
 * Formats the limit headers of a response. The `X-RateLimit-*` headers describe the window with the fewest requests
 * left; `RateLimit` and `RateLimit-Policy` describe every window.
 * See https://datatracker.ietf.org/doc/draft-ietf-httpapi-ratelimit-headers/
 * @param windows - the shorter window first; empty if the limits are unknown
 * @param now - by `monotonicNow`, like the windows
 * @returns names and values alternately; empty if there are no windows
 */
export function formatLimitHeaders(windows: readonly WindowState[], now = monotonicNow()): string[] {
  if (windows.length === 0) return [];
  const tightest = windows.reduce((least, window) => (window.remaining < least.remaining ? window : least));
  const policies = windows.map(
    ({ name, limit, seconds }) => `"${name}";q=${limit}${seconds === null ? '' : `;w=${seconds}`}`,
  );
  const states = windows.map(
    ({ name, remaining, resetAt }) => `"${name}";r=${remaining};t=${Math.max(0, Math.ceil((resetAt - now) / 1_000))}`,
  );
  return [
    'X-RateLimit-Limit',
    String(tightest.limit),
    'X-RateLimit-Remaining',
    String(tightest.remaining),
    'X-RateLimit-Reset',
    String(toUnixSeconds(tightest.resetAt)),
    'RateLimit-Policy',
    policies.join(', '),
    'RateLimit',
    states.join(', '),
  ];
}

/** Converts a time of `monotonicNow` to Unix seconds, rounded up so that clients do not retry too early. */
export function toUnixSeconds(time: number): number {
  return Math.ceil(toWallTime(time) / 1_000);
}
