import { createBoundedCache } from '../bounded-cache.js';
import { monotonicNow } from '../clock.js';
import type { Account, Admission, Banned, Counts, WindowState } from './ledger.js';
import { secondsUntil } from './refusals.js';

interface Entry extends Counts {
  used: number[];
  closesAt: number[];
  /** When the last `banAfter` refusals happened, the oldest first. */
  readonly refusedAt: number[];
  bannedUntil: number;
}

export type MemoryLedger = ReturnType<typeof createMemoryLedger>;

const MINUTE_MS = 60_000;

/**
 * Creates a ledger that counts only the requests of this process. Admission is synchronous, so nothing can happen
 * between the check and the charge.
 * @param capacity - the most accounts to keep. The least recently used one is evicted first.
 * @param banAfter - an account with more refusals than this within a minute is banned
 */
export function createMemoryLedger({
  capacity = 200_000,
  banAfter = Infinity,
  banSeconds = 0,
  now: clock = monotonicNow,
} = {}) {
  const entries = createBoundedCache<Entry>(capacity);

  return {
    admit(account: Account, cost: number): Admission {
      const now = clock();
      const known = entries.get(account.id);
      const entry = known ?? createEntry(account);
      const windows = view(account, entry, now);
      if (isBanned(account, entry, now)) return banned(entry, windows, now);
      if (cost === 0) return { outcome: 'admitted', windows };
      const largestCost = findLargestCost(account);
      if (cost > largestCost) return { outcome: 'too-large', windows, limit: largestCost };
      if (!known) entries.set(account.id, entry);
      if (windows.some(({ remaining }) => remaining < cost)) {
        if (!isOneTooMany(entry, now)) return refused(windows, cost, now);
        entry.bannedUntil = now + banSeconds * 1_000;
        return banned(entry, windows, now);
      }
      windows.forEach(({ limit, remaining, resetAt }, i) => {
        entry.used[i] = limit - remaining + cost;
        entry.closesAt[i] = resetAt;
      });
      return { outcome: 'admitted', windows: view(account, entry, now) };
    },
    findBan(account: Account): Banned | undefined {
      const entry = entries.get(account.id);
      const now = entry?.bannedUntil ? clock() : 0;
      return entry && isBanned(account, entry, now) ? banned(entry, view(account, entry, now), now) : undefined;
    },
    find: (id: string): Counts | undefined => entries.get(id),
    /** Replaces the counts of an account by those of another ledger, except for the refusals that lead to a ban. */
    adopt({ id }: Account, { used, closesAt, bannedUntil }: Counts): void {
      const refusedAt = entries.get(id)?.refusedAt ?? [];
      entries.set(id, { used: [...used], closesAt: [...closesAt], refusedAt, bannedUntil });
    },
  };

  function isBanned({ unbannedAt = 0 }: Account, { bannedUntil }: Entry, now: number): boolean {
    return bannedUntil > now && bannedUntil - banSeconds * 1_000 >= unbannedAt;
  }

  /** Records a refusal. Returns whether there were `banAfter` others within the last minute. */
  function isOneTooMany({ refusedAt }: Entry, now: number): boolean {
    // Without bans, nothing reads the refusals.
    if (banAfter === Infinity) return false;
    refusedAt.push(now);
    if (refusedAt.length <= banAfter || (refusedAt.shift() as number) <= now - MINUTE_MS) return false;
    refusedAt.length = 0;
    return true;
  }
}

function createEntry({ windows }: Account): Entry {
  return { used: windows.map(() => 0), closesAt: windows.map(() => 0), refusedAt: [], bannedUntil: 0 };
}

/** The windows as clients see them. One that is closed would open now. */
export function view({ windows }: Account, { used, closesAt }: Counts, now: number): WindowState[] {
  return windows.map(({ name, seconds, limit }, i) => {
    const closes = closesAt[i] as number;
    const isOpen = closes > now;
    const remaining = isOpen ? Math.max(0, limit - (used[i] as number)) : limit;
    return { name, seconds, limit, remaining, resetAt: isOpen ? closes : now + seconds * 1_000 };
  });
}

export function findLargestCost({ windows }: Account): number {
  return Math.min(...windows.map(({ limit }) => limit));
}

/** The refusal of an operation that fits again when all full windows have closed. */
export function refused(windows: readonly WindowState[], cost: number, now: number): Admission {
  const full = windows.filter(({ remaining }) => remaining < cost);
  const retryAfter = Math.max(...full.map(({ resetAt }) => secondsUntil(resetAt, now)));
  return { outcome: 'refused', windows, retryAfter };
}

export function banned({ bannedUntil }: Counts, windows: readonly WindowState[], now: number): Banned {
  return { outcome: 'banned', windows, retryAfter: secondsUntil(bannedUntil, now) };
}
