import { createBoundedCache } from '../bounded-cache.js';
import { fromWallTime, monotonicNow, toWallTime } from '../clock.js';
import type { Account, Admission, Banned, Counts, Ledger, WindowState } from './ledger.js';
import type { WindowLimit } from './plans.js';
import { secondsUntil } from './refusals.js';

interface Entry extends Counts {
  used: number[];
  closesAt: number[];
  /** When the last `banAfter` refusals happened. A ring buffer, with its oldest entry at `oldestRefusal`. */
  readonly refusedAt: number[];
  oldestRefusal: number;
  bannedUntil: number;
}

/** The entries of a ledger, with times of the wall clock. */
export type LedgerSnapshot = readonly (readonly [id: string, entry: Entry])[];

/** A ledger that counts only the requests of this process. A snapshot preserves its counts across restarts. */
export interface MemoryLedger extends Ledger {
  admit(account: Account, cost: number): Admission;
  /** Returns what `admit` would return for a cost of 0, and keeps nothing. */
  peek(account: Account): Admission;
  /** Finds the counts of an account. */
  find(id: string): Counts | undefined;
  /** Replaces the counts of an account by those of another ledger, except for the refusals that lead to a ban. */
  adopt(account: Account, counts: Counts): void;
  snapshot(): LedgerSnapshot;
  restore(snapshot: LedgerSnapshot): void;
}

export interface MemoryLedgerOptions {
  /** The most accounts to keep. The least recently used one is evicted first. */
  readonly capacity?: number;
  /** An account with more refusals than this within a minute is banned. */
  readonly banAfter?: number;
  readonly banSeconds?: number;
  /** Returns the time, like `monotonicNow`. */
  readonly now?: () => number;
}

const MINUTE_MS = 60_000;

/** Creates a ledger in memory. Admission is synchronous, so nothing can happen between the check and the charge. */
export function createMemoryLedger({
  capacity = 200_000,
  banAfter = Infinity,
  banSeconds = 0,
  now: clock = monotonicNow,
}: MemoryLedgerOptions = {}): MemoryLedger {
  const entries = createBoundedCache<Entry>(capacity);

  return {
    admit(account, cost) {
      const now = clock();
      const entry = entries.get(account.id) ?? open(account);
      boundWindows(account, entry, now);
      if (isBanned(account, entry, now)) return banned(entry, view(account, entry, now), now);
      if (cost === 0) return { outcome: 'admitted', windows: view(account, entry, now) };
      const largest = smallestLimit(account);
      if (cost > largest) return { outcome: 'too-large', windows: view(account, entry, now), limit: largest };
      if (!hasRoom(account, entry, cost, now)) return refuse(account, entry, cost, now);
      charge(account, entry, cost, now);
      return { outcome: 'admitted', windows: view(account, entry, now) };
    },
    findBan(account) {
      const entry = entries.get(account.id);
      const now = entry?.bannedUntil ? clock() : 0;
      return entry && isBanned(account, entry, now) ? banned(entry, view(account, entry, now), now) : undefined;
    },
    peek(account) {
      const entry = entries.peek(account.id) ?? createEntry(account);
      const now = clock();
      const windows = view(account, entry, now);
      return isBanned(account, entry, now) ? banned(entry, windows, now) : { outcome: 'admitted', windows };
    },
    find: (id) => entries.get(id),
    adopt(account, { used, closesAt, bannedUntil }) {
      const entry = entries.get(account.id) ?? open(account);
      entry.used = [...used];
      entry.closesAt = [...closesAt];
      entry.bannedUntil = bannedUntil;
    },
    snapshot: () => [...entries.entries()].map(([id, entry]) => [id, mapTimes(entry, toWallTime)]),
    restore(snapshot) {
      // A snapshot begins with the most recently used entry. Setting that one last keeps the order of eviction.
      const now = clock();
      for (const [id, saved] of [...snapshot].reverse()) {
        const entry = mapTimes(saved, fromWallTime);
        // The wall clock may have stepped back since the snapshot.
        entry.bannedUntil = Math.min(entry.bannedUntil, now + banSeconds * 1_000);
        entries.set(id, { ...entry, refusedAt: entry.refusedAt.map((time) => Math.min(time, now)) });
      }
    },
  };

  function open(account: Account): Entry {
    const entry = createEntry(account);
    entries.set(account.id, entry);
    return entry;
  }

  function isBanned({ unbannedAt = 0 }: Account, { bannedUntil }: Entry, now: number): boolean {
    return bannedUntil > now && bannedUntil - banSeconds * 1_000 >= unbannedAt;
  }

  function refuse(account: Account, entry: Entry, cost: number, now: number): Admission {
    const windows = view(account, entry, now);
    if (isOneTooMany(entry, now)) {
      entry.bannedUntil = now + banSeconds * 1_000;
      if (banSeconds > 0) return banned(entry, windows, now);
    }
    const full = windows.filter(({ remaining }) => remaining < cost);
    const retryAfter = Math.max(...full.map(({ resetAt }) => secondsUntil(resetAt, now)));
    return { outcome: 'refused', windows, retryAfter };
  }

  /** Records a refusal. Returns whether there were `banAfter` others within the last minute. */
  function isOneTooMany(entry: Entry, now: number): boolean {
    // Without bans, nothing reads the refusals.
    if (banAfter === Infinity) return false;
    const { refusedAt } = entry;
    if (refusedAt.length < banAfter) {
      refusedAt.push(now);
      return false;
    }
    const isTooMany = banAfter === 0 || (refusedAt[entry.oldestRefusal] as number) > now - MINUTE_MS;
    if (isTooMany) {
      refusedAt.length = 0;
      entry.oldestRefusal = 0;
    } else {
      refusedAt[entry.oldestRefusal] = now;
      entry.oldestRefusal = (entry.oldestRefusal + 1) % banAfter;
    }
    return isTooMany;
  }
}

function mapTimes(entry: Entry, convert: (time: number) => number): Entry {
  const { closesAt, refusedAt, bannedUntil } = entry;
  return {
    ...entry,
    closesAt: closesAt.map(convert),
    refusedAt: refusedAt.map(convert),
    bannedUntil: convert(bannedUntil),
  };
}

function createEntry({ windows }: Account): Entry {
  return {
    used: windows.map(() => 0),
    closesAt: windows.map(() => 0),
    refusedAt: [],
    oldestRefusal: 0,
    bannedUntil: 0,
  };
}

/** Returns the state of an account's windows at the time `now`. */
export function view({ windows }: Account, { used, closesAt }: Counts, now: number): WindowState[] {
  return windows.map(({ name, seconds, limit }, i) => {
    const closes = closesAt[i] as number;
    const isOpen = closes > now;
    const remaining = isOpen ? Math.max(0, limit - (used[i] as number)) : limit;
    return { name, seconds, limit, remaining, resetAt: isOpen ? closes : now + seconds * 1_000 };
  });
}

/** Shortens windows that a snapshot restored after the wall clock had stepped back. */
function boundWindows({ windows }: Account, { closesAt }: Entry, now: number): void {
  for (let i = 0; i < windows.length; i++) {
    const latest = now + (windows[i] as WindowLimit).seconds * 1_000;
    if ((closesAt[i] as number) > latest) closesAt[i] = latest;
  }
}

function smallestLimit({ windows }: Account): number {
  let smallest = Infinity;
  for (const { limit } of windows) if (limit < smallest) smallest = limit;
  return smallest;
}

function hasRoom({ windows }: Account, { used, closesAt }: Entry, cost: number, now: number): boolean {
  for (let i = 0; i < windows.length; i++) {
    const isOpen = (closesAt[i] as number) > now;
    if (isOpen && (used[i] as number) + cost > (windows[i] as WindowLimit).limit) return false;
  }
  return true;
}

function charge({ windows }: Account, { used, closesAt }: Entry, cost: number, now: number): void {
  for (let i = 0; i < windows.length; i++) {
    if ((closesAt[i] as number) > now) used[i] = (used[i] as number) + cost;
    else {
      used[i] = cost;
      closesAt[i] = now + (windows[i] as WindowLimit).seconds * 1_000;
    }
  }
}

function banned({ bannedUntil }: Entry, windows: readonly WindowState[], now: number): Banned {
  return { outcome: 'banned', windows, retryAfter: secondsUntil(bannedUntil, now) };
}
