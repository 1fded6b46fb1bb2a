import { parseStatedWindows, type StatedWindow } from '../../access/limit-fields.js';

/** What the answers have told of the key's windows. Times are in milliseconds since the epoch. */
export interface KeyLimits {
  /** Takes what an answer states, in whatever order answers come. */
  learn(header: (name: string) => string | undefined): void;
  /** The most that one operation may cost; Infinity while nothing is known. */
  readonly largestCost: number;
  /** What may be asked now without being refused, with `underWay` asked and not answered; Infinity while nothing is known. */
  room(underWay: number): number;
  /** When all windows have room again. */
  opensAt(): number;
}

/** Times of the same window differ by rounding, up or down to a second, and by the way of the answer. */
const SAME_WINDOW_MS = 2_500;

export function createKeyLimits(): KeyLimits {
  let windows: readonly StatedWindow[] = [];

  return {
    learn(header) {
      const now = Date.now();
      const stated = parseStatedWindows({ header }, now);
      if (stated.length === 0) return;
      const known = new Map(windows.map((window) => [window.name, window]));
      windows = stated.map((window) => merge(known.get(window.name), window, now));
    },
    get largestCost() {
      return Math.max(1, Math.min(Infinity, ...windows.map(({ limit }) => limit)));
    },
    room(underWay) {
      const now = Date.now();
      const left = windows.map(({ limit, remaining, resetAt }) => (resetAt > now ? remaining : limit));
      return Math.min(Infinity, ...left) - underWay;
    },
    opensAt: () => Math.max(0, ...windows.map(({ remaining, resetAt }) => (remaining > 0 ? 0 : resetAt))),
  };
}

/** Within one window no request comes back: of two answers the one with fewer left is the later, whichever came first. */
function merge(known: StatedWindow | undefined, stated: StatedWindow, now: number): StatedWindow {
  if (known?.limit !== stated.limit || known.resetAt <= now) return stated;
  const isSame = Math.abs(known.resetAt - stated.resetAt) <= SAME_WINDOW_MS;
  return isSame && known.remaining < stated.remaining ? known : stated;
}
