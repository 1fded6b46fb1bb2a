import { createBoundedCache } from '../bounded-cache.js';
import { fromWallTime, monotonicNow, toWallTime } from '../clock.js';
import type { Account, Admission, Banned, Counts, WindowState } from './ledger.js';
import { secondsUntil } from './refusals.js';

interface Entry extends Counts {
  used: number[];
  closesAt: number[];
  /** When the last `banAfter` refusals happened, the oldest first. */
  readonly refusedAt: number[];
  bannedUntil: number;
}

/** The entries of a ledger, with times of the wall clock. */
export type LedgerSnapshot = readonly (readonly [id: string, entry: Entry])[];

export type MemoryLedger = ReturnType<typeof createMemoryLedger>;

const MINUTE_MS = 60_000;
/** The lengths of the windows of all accounts. */
const WINDOWS_MS = [MINUTE_MS, 86_400_000];

/**
 * Creates a ledger that counts only the requests of this process. Admission is synchronous, so nothing can happen
 * between the check and the charge. A snapshot preserves the counts across restarts.
 * @param capacity - the most accounts to keep. The least recently used one is evicted first.
 * @param banAfter - an account with more refusals than this within a minute is banned
 */
export function createMemoryLedger({
  capacity = 200_000,
  banAfter = Infinity,
  banSeconds = 0,
  now: clock = monotonicNow,
} = {}) {
  /** The accounts in `entries`, the oldest first. A snapshot can go through a Set in parts while it changes. */
  const ids = new Set<string>();
  const entries = createBoundedCache<Entry>(capacity, undefined, (id) => ids.delete(id));
  /** The accounts that have changed since the last call of `changes`. */
  let changed: Set<string> | undefined;

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
      if (!known) keep(account.id, entry);
      changed?.add(account.id);
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
      keep(id, { used: [...used], closesAt: [...closesAt], refusedAt, bannedUntil });
    },
    /** Lists the accounts that are in use, one at a time: the ledger may change in between. */
    snapshot: () => list(ids),
    /** Lists those that have changed since the last call. The first call lists none. */
    changes() {
      const since = changed ?? [];
      changed = new Set();
      return list(since);
    },
    restore(snapshot: LedgerSnapshot): void {
      const now = clock();
      for (const [id, saved] of snapshot) {
        const { used, closesAt, refusedAt, bannedUntil } = mapTimes(saved, fromWallTime);
        // The wall clock may have stepped back since the snapshot.
        keep(id, {
          used,
          closesAt: closesAt.map((time, i) => Math.min(time, now + (WINDOWS_MS[i] as number))),
          refusedAt: refusedAt.map((time) => Math.min(time, now)),
          bannedUntil: Math.min(bannedUntil, now + banSeconds * 1_000),
        });
      }
    },
  };

  function* list(accounts: Iterable<string>): Iterable<LedgerSnapshot[number]> {
    for (const id of accounts) {
      const entry = entries.peek(id);
      if (entry && isInUse(entry, clock())) yield [id, mapTimes(entry, toWallTime)];
    }
  }

  function keep(id: string, entry: Entry): void {
    entries.set(id, entry);
    ids.add(id);
  }

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

/** Whether forgetting an entry would change an answer. */
function isInUse({ closesAt, bannedUntil, refusedAt }: Entry, now: number): boolean {
  const isLater = (time: number): boolean => time > now;
  return closesAt.some(isLater) || bannedUntil > now || refusedAt.some((time) => time > now - MINUTE_MS);
}

function mapTimes({ used, closesAt, refusedAt, bannedUntil }: Entry, convert: (time: number) => number): Entry {
  return {
    used,
    closesAt: closesAt.map(convert),
    refusedAt: refusedAt.map(convert),
    bannedUntil: convert(bannedUntil),
  };
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
