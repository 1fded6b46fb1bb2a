import { createBoundedCache } from '../bounded-cache.js';
import { monotonicNow } from '../clock.js';
import type { Account, Admission, WindowState } from './ledger.js';
import { secondsUntil } from './refusals.js';

export interface Count {
  readonly used: number;
  /** The part of `used` that this process admitted. */
  readonly own: number;
  /** By `monotonicNow`. The window is not open if this is in the past. */
  readonly closesAt: number;
}

/** What is known of an account: `counts[i]` belongs to `account.windows[i]`. */
export interface LedgerEntry {
  readonly account: Account;
  readonly counts: readonly Count[];
  /** When the last `banAfter` refusals happened, the oldest first. */
  readonly refusedAt: number[];
  /** By `monotonicNow`. There is no ban if this is in the past. */
  readonly bannedUntil: number;
}

export type MemoryLedger = ReturnType<typeof createMemoryLedger>;

const MINUTE_MS = 60_000;
const CLOSED: Count = { used: 0, own: 0, closesAt: 0 };

/**
 * Creates a ledger of the requests of this process. Admission is synchronous, so the check and the charge are one step.
 * @param capacity - the most accounts to keep. The least recently used one is evicted first.
 * @param banAfter - an account with more refusals than this within a minute is banned
 */
export function createMemoryLedger({
  capacity = 200_000,
  banAfter = Infinity,
  banSeconds = 0,
  now: clock = monotonicNow,
} = {}) {
  const entries = createBoundedCache<LedgerEntry>(capacity);
  const banMs = banSeconds * 1_000;

  return {
    admit,
    findBan(account: Account): Admission | undefined {
      const admission = entries.get(account.id)?.bannedUntil ? admit(account, 0) : undefined;
      return admission?.outcome === 'banned' ? admission : undefined;
    },
    find,
    set: (entry: LedgerEntry): void => void entries.set(entry.account.id, entry),
    list: (): LedgerEntry[] => [...entries.values()],
  };

  function admit(account: Account, cost: number): Admission {
    const now = clock();
    const entry = find(account, now);
    const { counts, bannedUntil } = entry;
    const windows = view(account, counts, now);
    // A ban that began before `unbannedAt` is lifted.
    if (bannedUntil > now && bannedUntil - banMs >= (account.unbannedAt ?? 0)) return banned(windows, bannedUntil, now);
    if (cost === 0) return { outcome: 'admitted', windows };
    const largestCost = findLargestCost(account);
    if (cost > largestCost) return { outcome: 'too-large', windows, limit: largestCost };
    if (windows.some(({ remaining }) => remaining < cost)) {
      const bannedUntil = isOneTooMany(entry, now) ? now + banMs : 0;
      entries.set(account.id, { ...entry, bannedUntil });
      return bannedUntil ? banned(windows, bannedUntil, now) : refused(windows, cost, now);
    }
    const charged = counts.map((count, i) => ({
      used: count.used + cost,
      own: count.own + cost,
      closesAt: (windows[i] as WindowState).resetAt,
    }));
    entries.set(account.id, { account, counts: charged, refusedAt: entry.refusedAt, bannedUntil });
    return { outcome: 'admitted', windows: view(account, charged, now) };
  }

  /** Nothing is used of a window that is not open. */
  function find(account: Account, now = clock()): LedgerEntry {
    const { counts = [], refusedAt = [], bannedUntil = 0 } = entries.get(account.id) ?? {};
    const open = account.windows.map((_, i) => {
      const count = counts[i];
      return count && count.closesAt > now ? count : CLOSED;
    });
    return { account, counts: open, refusedAt, bannedUntil };
  }

  /** Records a refusal. Returns whether there were `banAfter` others within the last minute. */
  function isOneTooMany({ refusedAt }: LedgerEntry, now: number): boolean {
    if (banAfter === Infinity) return false;
    refusedAt.push(now);
    if (refusedAt.length <= banAfter || (refusedAt.shift() as number) <= now - MINUTE_MS) return false;
    refusedAt.length = 0;
    return true;
  }
}

/** The windows as clients see them: one that is closed would open now. */
export function view({ windows }: Account, counts: readonly Count[], now: number): WindowState[] {
  return windows.map(({ name, seconds, limit }, i) => {
    const { used, closesAt } = counts[i] as Count;
    return { name, seconds, limit, remaining: Math.max(0, limit - used), resetAt: closesAt || now + seconds * 1_000 };
  });
}

export function findLargestCost({ windows }: Account): number {
  return Math.min(...windows.map(({ limit }) => limit));
}

/** The operation fits again when all full windows have closed. */
export function refused(windows: readonly WindowState[], cost: number, now: number): Admission {
  const full = windows.filter(({ remaining }) => remaining < cost);
  return {
    outcome: 'refused',
    windows,
    retryAfter: Math.max(...full.map(({ resetAt }) => secondsUntil(resetAt, now))),
  };
}

export function banned(windows: readonly WindowState[], bannedUntil: number, now: number): Admission {
  return { outcome: 'banned', windows, retryAfter: secondsUntil(bannedUntil, now) };
}
