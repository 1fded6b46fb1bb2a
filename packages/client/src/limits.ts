/** A window of the key's plan. `resetAt`, when all requests are available again, is in milliseconds since the epoch. */
export interface LimitWindow {
  /** `minute` or `day`; a store behind a gateway may use other names. */
  readonly name: string;
  readonly limit: number;
  readonly remaining: number;
  readonly resetAt: number;
}

/** Two reset times that differ by less belong to the same window: both are rounded and arrive with some delay. */
const SAME_WINDOW_MS = 2_500;
/** A window that states more is ignored: it could stop the client for as long as the program runs. */
const LONGEST_WINDOW_S = 86_400;

/**
 * Reads `RateLimit-Policy` and `RateLimit` (https://datatracker.ietf.org/doc/draft-ietf-httpapi-ratelimit-headers/).
 * @returns what is known if the response states nothing
 */
export function updateWindows(known: readonly LimitWindow[], headers: Headers): readonly LimitWindow[] {
  const policy = read(headers, 'ratelimit-policy', /"([^"]*)";q=(\d+)/g);
  const limits = new Map(policy.map(([, name, limit]) => [name, Number(limit)]));
  const now = Date.now();
  const windows = read(headers, 'ratelimit', /"([^"]*)";r=(\d+);t=(\d+)/g).flatMap(([, name = '', r, t]) => {
    const limit = limits.get(name) ?? Infinity;
    if (limit === 0 || Number(t) > LONGEST_WINDOW_S) return [];
    const resetAt = now + Number(t) * 1_000;
    const before = known.find((one) => one.name === name && one.resetAt > now);
    const isSame = before && Math.abs(before.resetAt - resetAt) <= SAME_WINDOW_MS;
    // Responses may arrive in any order. Within a window, `remaining` only falls, so the lower number is the newer one.
    return isSame && before.remaining < Number(r) ? before : { name, limit, remaining: Number(r), resetAt };
  });
  return windows.length > 0 ? windows : known;
}

/** A plan has few windows, so the start of a header is enough. */
function read(headers: Headers, name: string, pattern: RegExp): RegExpMatchArray[] {
  return [...(headers.get(name) ?? '').slice(0, 1_000).matchAll(pattern)];
}
