import { OTHER, type Use } from '../access/usage.js';
import { createBoundedCache } from '../bounded-cache.js';
import type { Log } from '../observability/log.js';
import { repeat } from '../repeat.js';

interface DailyUse extends Pick<Use, 'keyId' | 'operation' | 'deprecated'> {
  /** Empty if the client sent no name. */
  readonly client: string;
  /** When the day began, in UTC. All times are in milliseconds since the epoch. */
  readonly day: number;
}

export interface UsageCount extends DailyUse {
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

/** When this many counts wait, they are written at once. No statement has more. */
const ENOUGH = 1_000;
/** The most pairs of client and operation of a key and day. Clients may make up more: these are `(other)`. */
const MAX_NAMES = 50;
/** For how many keys and days these are remembered. */
const MAX_KEYS = 2_000;
const DAY_MS = 86_400_000;

/** Creates a `UsageCounter` that counts in memory and writes to the database from time to time. */
export function createUsageCounter({ write, log, flushEveryMs = 5_000, capacity = 5_000 }: UsageCounterOptions) {
  let counts = new Map<string, UsageCount>();
  const namesOfDays = createBoundedCache<Set<string>>(MAX_KEYS);
  /** The requests that are in no count, and how many of them the log has told. */
  let lost = 0;
  let told = 0;
  let isFailing = false;
  let writing: Promise<void> | undefined;
  const stopWriting = repeat({ run: startWriting, pauseMs: () => flushEveryMs });

  return {
    count({ keyId, client = '', operation, deprecated, cost, outcome }: Use): void {
      const lastAt = Date.now();
      const use = { keyId, day: lastAt - (lastAt % DAY_MS), operation, deprecated, client };
      const errors = outcome === 'ok' ? 0 : 1;
      const refused = outcome === 'refused' ? 1 : 0;
      add({ ...(isKnown(use) ? use : toOther(use)), requests: 1, cost, errors, refused, lastAt });
      if (counts.size >= ENOUGH && !isFailing) void startWriting();
    },
    flush,
    lost: () => lost,
    async close(): Promise<void> {
      await stopWriting();
      await flush();
      const requests = [...counts.values()].reduce((sum, count) => sum + count.requests, lost - told);
      if (requests > 0) log.warn({ requests }, 'key usage could not be stored and is lost');
    },
  };

  /** Whether a name is among the first of its key and day. */
  function isKnown({ keyId, day, operation, client }: DailyUse): boolean {
    const keyDay = `${day} ${keyId}`;
    const name = `${operation}\n${client}`;
    let names = namesOfDays.get(keyDay);
    if (!names) namesOfDays.set(keyDay, (names = new Set()));
    if (names.size < MAX_NAMES) names.add(name);
    return names.has(name);
  }

  function add(added: UsageCount): void {
    const { keyId, day, operation, deprecated, client } = added;
    const id = `${day} ${keyId}\n${operation}\n${deprecated}\n${client}`;
    const count = counts.get(id);
    if (count) {
      count.requests += added.requests;
      count.cost += added.cost;
      count.errors += added.errors;
      count.refused += added.refused;
      count.lastAt = Math.max(count.lastAt, added.lastAt);
    } else if (counts.size < capacity) counts.set(id, added);
    else lost += added.requests;
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
      while (taken.length > 0) {
        await write(taken.slice(0, ENOUGH));
        taken.splice(0, ENOUGH);
      }
    } catch (err) {
      taken.forEach(add);
      if (!isFailing) log.warn({ err }, 'key usage cannot be stored yet; trying again');
      isFailing = true;
      return;
    }
    isFailing = false;
    if (lost > told)
      log.warn({ requests: lost - told }, 'not all usage of keys was counted, because there was too much');
    told = lost;
  }
}

/** There are few REST routes, but clients may give operations any name. Only routes contain a space. */
function toOther(use: DailyUse): DailyUse {
  return { ...use, client: OTHER, operation: use.operation.includes(' ') ? use.operation : OTHER };
}
