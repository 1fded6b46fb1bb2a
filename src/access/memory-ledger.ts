import { LRUCache } from 'lru-cache';
import type { Account, Admission, Counts, Ledger, WindowState } from './ledger.js';
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
  const entries = new LRUCache<string, Entry>({ max: capacity });

  return {
    admit,
    recall: (account) => admit(account, 0),
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

  function admit(account: Account, cost: number): Admission {
    const now = clock();
    const entry = entries.get(account.id) ?? open(account);
    const before = view(account, entry, now);
    if (entry.bannedUntil > now) return banned(entry, before, now);
    if (cost === 0) return { outcome: 'admitted', windows: before };
    const largest = Math.min(...account.windows.map(({ limit }) => limit));
    if (cost > largest) return { outcome: 'too-large', windows: before, limit: largest };
    const full = before.filter(({ remaining }) => remaining < cost);
    if (full.length > 0) return refuse(entry, before, full, now);
    return { outcome: 'admitted', windows: charge(account, entry, before, cost, now) };
  }

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

  function refuse(entry: Entry, windows: readonly WindowState[], full: readonly WindowState[], now: number): Admission {
    if (isOneTooMany(entry, now)) {
      entry.bannedUntil = now + banSeconds * 1_000;
      if (banSeconds > 0) return banned(entry, windows, now);
    }
    return {
      outcome: 'refused',
      windows,
      retryAfter: Math.max(...full.map(({ resetAt }) => secondsUntil(resetAt, now))),
    };
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
  return windows.map((window, i) => {
    const closes = closesAt[i] as number;
    return closes > now
      ? { ...window, remaining: Math.max(0, window.limit - (used[i] as number)), resetAt: closes }
      : { ...window, remaining: window.limit, resetAt: now + window.seconds * 1_000 };
  });
}

function charge(
  { windows }: Account,
  { used, closesAt }: Entry,
  before: readonly WindowState[],
  cost: number,
  now: number,
): WindowState[] {
  return before.map((state, i) => {
    const isOpen = (closesAt[i] as number) > now;
    used[i] = isOpen ? (used[i] as number) + cost : cost;
    closesAt[i] = state.resetAt;
    return { ...state, remaining: (windows[i] as WindowState).limit - used[i] };
  });
}

function banned({ bannedUntil }: Entry, windows: readonly WindowState[], now: number): Admission {
  return { outcome: 'banned', windows, retryAfter: secondsUntil(bannedUntil, now) };
}
