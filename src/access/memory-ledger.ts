import { createBoundedCache } from '../bounded-cache.js';
import { monotonicNow } from '../clock.js';
import type { Account, Admission, WindowState } from './ledger.js';
import { secondsUntil } from './refusals.js';

/** What was counted in one window. */
export interface Count {
  used: number;
  /** The part of `used` that this process admitted. */
  own: number;
  /** By `monotonicNow`. The window is not open if this is in the past. */
  closesAt: number;
}

/** What is known of an account: `counts[i]` belongs to `account.windows[i]`. */
export interface LedgerEntry {
  account: Account;
  readonly counts: readonly Count[];
  /** When the last `banAfter` refusals happened, the oldest first. */
  readonly refusedAt: number[];
  /** By `monotonicNow`. There is no ban if this is in the past. */
  bannedUntil: number;
}

export type MemoryLedger = ReturnType<typeof createMemoryLedger>;

const MINUTE_MS = 60_000;

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
    keep,
    list: (): LedgerEntry[] => [...entries.values()],
  };

  function admit(account: Account, cost: number): Admission {
    const now = clock();
    const entry = find(account, now);
    const { counts, bannedUntil } = entry;
    // A ban that began before `unbannedAt` is lifted.
    if (bannedUntil > now && bannedUntil - banMs >= (account.unbannedAt ?? 0))
      return banned(view(entry, now), bannedUntil, now);
    const largestCost = findLargestCost(account);
    if (cost > largestCost) return { outcome: 'too-large', windows: view(entry, now), limit: largestCost };
    if (cost > 0) {
      keep(entry);
      if (account.windows.some(({ limit }, i) => (counts[i] as Count).used + cost > limit)) {
        entry.bannedUntil = isOneTooMany(entry, now) ? now + banMs : 0;
        const windows = view(entry, now);
        return entry.bannedUntil ? banned(windows, entry.bannedUntil, now) : refused(windows, cost, now);
      }
      account.windows.forEach(({ seconds }, i) => {
        const count = counts[i] as Count;
        count.used += cost;
        count.own += cost;
        count.closesAt ||= now + seconds * 1_000;
      });
    }
    return { outcome: 'admitted', windows: view(entry, now) };
  }

  /** Finds what is known of an account, or begins it. Nothing is used of a window that is not open. */
  function find(account: Account, now = clock()): LedgerEntry {
    const entry = entries.get(account.id) ?? {
      account,
      counts: account.windows.map(() => ({ used: 0, own: 0, closesAt: 0 })),
      refusedAt: [],
      bannedUntil: 0,
    };
    entry.account = account;
    for (const count of entry.counts) if (count.closesAt <= now) count.used = count.own = count.closesAt = 0;
    return entry;
  }

  function keep(entry: LedgerEntry): void {
    const { id } = entry.account;
    if (!entries.has(id)) entries.set(id, entry);
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
export function view({ account, counts }: LedgerEntry, now: number): WindowState[] {
  return account.windows.map(({ name, seconds, limit }, i) => {
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
