import { OTHER, type Use } from '../access/usage.js';
import { createBoundedCache } from '../bounded-cache.js';
import type { Log } from '../observability/log.js';
import { repeat } from '../repeat.js';

/** How often a key was used in one way on one day. Times are in milliseconds since the epoch. */
export interface UsageCount extends Pick<Use, 'keyId' | 'operation' | 'deprecated'> {
  /** Empty if the client sent no name. */
  readonly client: string;
  /** When the day began, in UTC. */
  readonly day: number;
  requests: number;
  cost: number;
  errors: number;
  refused: number;
  lastAt: number;
}

export interface UsageCounterOptions {
  /** Adds the counts to the database, all of them or none. */
  readonly write: (counts: readonly UsageCount[]) => Promise<unknown>;
  readonly log: Log;
  /** The longest time between a request and its write, in milliseconds. */
  readonly flushEveryMs?: number;
  readonly capacity?: number;
}

/** When this many counts wait, they are written at once. */
const ENOUGH = 1_000;
/** The most pairs of client and operation of a key and day. Clients may send any number: the others are `(other)`. */
const MAX_NAMES = 50;
/** For how many keys the names of the day are remembered. */
const KEYS = 2_000;
const DAY_MS = 86_400_000;

/** Creates a `UsageCounter` that counts in memory and writes to the database from time to time. */
export function createUsageCounter(options: UsageCounterOptions) {
  const { write, log, flushEveryMs = 5_000, capacity = 5_000 } = options;
  let counts = new Map<string, UsageCount>();
  const namesOfDays = createBoundedCache<Set<string>>(KEYS);
  let notCounted = 0;
  let isFailing = false;
  let isClosed = false;
  let writing: Promise<void> | undefined;
  const stopWriting = repeat({ run: startWriting, pauseMs: () => flushEveryMs });

  return {
    count({ keyId, client = '', operation, deprecated, cost, outcome }: Use): void {
      if (isClosed) return;
      const lastAt = Date.now();
      const day = lastAt - (lastAt % DAY_MS);
      add({
        ...(isKnown(`${day} ${keyId}`, `${operation}\n${client}`) ? { client, operation } : toOther(operation)),
        ...{ keyId, day, deprecated, cost, lastAt },
        requests: 1,
        errors: outcome === 'ok' ? 0 : 1,
        refused: outcome === 'refused' ? 1 : 0,
      });
      if (counts.size >= ENOUGH && !isFailing) void startWriting();
    },
    flush,
    /** Writes all counts once more. Later requests are not counted. */
    async close(): Promise<void> {
      isClosed = true;
      await stopWriting();
      await flush();
      const requests = [...counts.values()].reduce((sum, count) => sum + count.requests, notCounted);
      if (requests > 0) log.warn({ requests }, 'key usage could not be stored and is lost');
    },
  };

  /** Whether a name is among the first of its key and day. */
  function isKnown(keyDay: string, name: string): boolean {
    let names = namesOfDays.get(keyDay);
    if (!names) namesOfDays.set(keyDay, (names = new Set()));
    if (names.size < MAX_NAMES) names.add(name);
    return names.has(name);
  }

  function add(count: UsageCount): void {
    const { keyId, client, operation, deprecated, day } = count;
    const id = [keyId, day, operation, deprecated, client].join('\n');
    const known = counts.get(id);
    if (known) {
      known.requests += count.requests;
      known.cost += count.cost;
      known.errors += count.errors;
      known.refused += count.refused;
      known.lastAt = Math.max(known.lastAt, count.lastAt);
    } else if (counts.size < capacity) {
      counts.set(id, count);
    } else {
      notCounted += count.requests;
    }
  }

  /** Writes all counts. Never rejects: counts that cannot be written stay in memory. */
  async function flush(): Promise<void> {
    await writing;
    await startWriting();
  }

  function startWriting(): Promise<void> {
    writing ??= writeAll().finally(() => (writing = undefined));
    return writing;
  }

  async function writeAll(): Promise<void> {
    const taken = [...counts.values()];
    counts = new Map();
    try {
      if (taken.length > 0) await write(taken);
      isFailing = false;
    } catch (err) {
      for (const count of taken) add(count);
      if (!isFailing) log.warn({ err }, 'key usage cannot be stored yet; trying again');
      isFailing = true;
      return;
    }
    if (notCounted > 0)
      log.warn({ requests: notCounted }, 'not all usage of keys was counted, because there was too much');
    notCounted = 0;
  }
}

/** There are few REST routes, but clients may give operations any name. Only routes contain a space. */
function toOther(operation: string): { client: string; operation: string } {
  return { client: OTHER, operation: operation.includes(' ') ? operation : OTHER };
}
