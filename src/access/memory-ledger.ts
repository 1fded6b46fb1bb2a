import { createBoundedCache } from '../bounded-cache.js';
import type { Account, Admission, Banned, Counts, Ledger, WindowState } from './ledger.js';
import type { WindowLimit } from './plans.js';
import { secondsUntil } from './refusals.js';

/** What is kept of an account. */
interface Entry extends Counts {
  used: number[];
  closesAt: number[];
  /** When the last `banAfter` requests were refused: a ring, whose oldest entry is at `oldestRefusal`. */
  readonly refusedAt: number[];
  oldestRefusal: number;
  bannedUntil: number;
}

export type LedgerSnapshot = readonly (readonly [id: string, entry: Entry])[];

/** A ledger of this process alone, which can be written down and taken up again. */
export interface MemoryLedger extends Ledger {
  admit(account: Account, cost: number): Admission;
  /** What is counted of an account; undefined when nothing is. */
  find(id: string): Counts | undefined;
  /** Takes over what another ledger has counted of an account. Refusals on the way to a ban stay its own. */
  adopt(account: Account, counts: Counts): void;
  snapshot(): LedgerSnapshot;
  restore(snapshot: LedgerSnapshot): void;
}

export interface MemoryLedgerOptions {
  /** Accounts counted at the most; the one that asked least recently is forgotten first. */
  readonly capacity?: number;
  /** Refusals within a minute above which an account is banned. */
  readonly banAfter?: number;
  /** How long a ban lasts. */
  readonly banSeconds?: number;
  /** The time in milliseconds since the epoch. */
  readonly now?: () => number;
}

const MINUTE_MS = 60_000;

/** Makes a ledger in memory. Admission is synchronous, so nothing can come between the check and the charge. */
export function createMemoryLedger({
  capacity = 200_000,
  banAfter = Infinity,
  banSeconds = 0,
  now: clock = Date.now,
}: MemoryLedgerOptions = {}): MemoryLedger {
  const entries = createBoundedCache<Entry>(capacity);

  return {
    admit(account, cost) {
      const now = clock();
      const entry = entries.get(account.id) ?? open(account);
      if (entry.bannedUntil > now) return banned(entry, view(account, entry, now), now);
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
      return entry && entry.bannedUntil > now ? banned(entry, view(account, entry, now), now) : undefined;
    },
    find: (id) => entries.get(id),
    adopt(account, { used, closesAt, bannedUntil }) {
      const entry = entries.get(account.id) ?? open(account);
      entry.used = [...used];
      entry.closesAt = [...closesAt];
      entry.bannedUntil = bannedUntil;
    },
    snapshot: () => [...entries.entries()],
    restore(snapshot) {
      // The least recently used first, as it was.
      for (const [id, entry] of [...snapshot].reverse()) entries.set(id, entry);
    },
  };

  function open({ id, windows }: Account): Entry {
    const entry: Entry = {
      used: windows.map(() => 0),
      closesAt: windows.map(() => 0),
      refusedAt: [],
      oldestRefusal: 0,
      bannedUntil: 0,
    };
    entries.set(id, entry);
    return entry;
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

  /** Enters a refusal; tells whether there were `banAfter` others within the last minute. */
  function isOneTooMany(entry: Entry, now: number): boolean {
    // Without bans nobody reads them.
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

/** The windows of an account as they stand at a time. */
export function view({ windows }: Account, { used, closesAt }: Counts, now: number): WindowState[] {
  return windows.map(({ name, seconds, limit }, i) => {
    const closes = closesAt[i] as number;
    const isOpen = closes > now;
    const remaining = isOpen ? Math.max(0, limit - (used[i] as number)) : limit;
    return { name, seconds, limit, remaining, resetAt: isOpen ? closes : now + seconds * 1_000 };
  });
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
