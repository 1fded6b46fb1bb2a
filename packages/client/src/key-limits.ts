/** The windows of the key, as the responses state them. */
export interface KeyLimits {
  /** Reads the limits in the headers of a response. Responses may arrive in any order. */
  learn(headers: Headers): void;
  /** The most that one operation can cost; Infinity if unknown. */
  readonly largestCost: number;
  /** How much the key can spend now, with `inFlight` requests unanswered; Infinity if unknown. */
  room(inFlight: number): number;
  /** Milliseconds until every window has room again. */
  msUntilOpen(): number;
}

interface Window {
  readonly name: string;
  readonly limit: number;
  readonly remaining: number;
  /** Milliseconds since the epoch. */
  readonly resetAt: number;
}

/** Two reset times that differ by less belong to the same window: both are rounded and arrive with some delay. */
const SAME_WINDOW_MS = 2_500;

export function createKeyLimits(): KeyLimits {
  let windows: readonly Window[] = [];

  return {
    learn(headers) {
      const received = parseWindows(headers);
      if (received.length === 0) return;
      const known = new Map(windows.map((window) => [window.name, window]));
      windows = received.map((window) => latest(known.get(window.name), window));
    },
    get largestCost() {
      return Math.max(1, Math.min(Infinity, ...windows.map(({ limit }) => limit)));
    },
    room(inFlight) {
      const now = Date.now();
      const left = windows.map(({ limit, remaining, resetAt }) => (resetAt > now ? remaining : limit));
      return Math.min(Infinity, ...left) - inFlight;
    },
    msUntilOpen: () => Math.max(0, ...windows.map(({ remaining, resetAt }) => (remaining ? 0 : resetAt - Date.now()))),
  };
}

/** Within a window, `remaining` only falls, so the lower number is the newer one. */
function latest(known: Window | undefined, received: Window): Window {
  const isSame = known?.limit === received.limit && Math.abs(known.resetAt - received.resetAt) <= SAME_WINDOW_MS;
  return isSame && known.resetAt > Date.now() && known.remaining < received.remaining ? known : received;
}

/** Reads `RateLimit-Policy` and `RateLimit` (https://datatracker.ietf.org/doc/draft-ietf-httpapi-ratelimit-headers/). */
function parseWindows(headers: Headers): readonly Window[] {
  const states = new Map(parseItems(headers.get('ratelimit')));
  return parseItems(headers.get('ratelimit-policy')).flatMap(([name, { q: limit }]) => {
    const { r: remaining, t: seconds } = states.get(name) ?? {};
    if (limit === undefined || remaining === undefined || seconds === undefined) return [];
    return [{ name, limit, remaining, resetAt: Date.now() + seconds * 1_000 }];
  });
}

/** Reads a list such as `"minute";q=60;w=60, "day";q=1000;w=86400`: each item's name and its numeric parameters. */
function parseItems(field: string | null): [name: string, parameters: Readonly<Record<string, number>>][] {
  return Array.from((field ?? '').matchAll(/"([^"]*)"([^,]*)/g), ([, name = '', rest = '']) => {
    const parameters = Array.from(rest.matchAll(/(\w+)=(\d+)/g), ([, key, value]) => [key, Number(value)] as const);
    return [name, Object.fromEntries(parameters) as Readonly<Record<string, number>>];
  });
}
