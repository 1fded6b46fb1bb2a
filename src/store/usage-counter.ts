import { OTHER, type Use } from '../access/usage.js';
import { createBoundedCache } from '../bounded-cache.js';
import { copyText } from '../copy-text.js';
import type { Log } from '../observability/log.js';
import { repeat } from '../repeat.js';

/** One way of using a key on one day, and how often it was used. */
export interface UsageCount extends Pick<Use, 'keyId' | 'operation' | 'deprecated'> {
  /** Empty if the client sent no name. */
  readonly client: string;
  /** When the day began, in UTC. In milliseconds since the epoch, as all times here. */
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

/** When this many counts wait, they are written at once. No statement has more. */
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
  /** The requests that are in no count. */
  let lost = 0;
  let isFailing = false;
  let isClosed = false;
  let writing: Promise<void> | undefined;
  const stopWriting = repeat({ run: startWriting, pauseMs: () => flushEveryMs });

  return {
    count({ keyId, client = '', operation, deprecated, cost, outcome }: Use): void {
      if (isClosed) return;
      const lastAt = Date.now();
      const day = lastAt - (lastAt % DAY_MS);
      const errors = outcome === 'ok' ? 0 : 1;
      const refused = outcome === 'refused' ? 1 : 0;
      const use = { keyId, day, operation, deprecated, client, requests: 1, cost, errors, refused, lastAt };
      const id = toId(use);
      if (counts.has(id) || isKnown(use)) add(use, id);
      // There are few REST routes, but clients may give operations any name. Only routes contain a space.
      else add({ ...use, client: OTHER, operation: operation.includes(' ') ? operation : OTHER });
      if (counts.size >= ENOUGH && !isFailing) void startWriting();
    },
    flush,
    lost: () => lost,
    /** Writes all counts once more. Later requests are not counted. */
    async close(): Promise<void> {
      isClosed = true;
      await stopWriting();
      await flush();
      const requests = [...counts.values()].reduce((sum, count) => sum + count.requests, 0);
      if (requests > 0) log.warn({ requests }, 'key usage could not be stored and is lost');
    },
  };

  /** Whether a name is among the first of its key and day. */
  function isKnown({ keyId, day, operation, client }: UsageCount): boolean {
    const keyDay = `${day} ${keyId}`;
    const name = `${operation}\n${client}`;
    let names = namesOfDays.get(keyDay);
    if (!names) namesOfDays.set(keyDay, (names = new Set()));
    if (names.has(name)) return true;
    if (names.size < MAX_NAMES) names.add(copyText(name));
    return names.has(name);
  }

  /** Adds to the count of such requests, or begins one unless there are too many. */
  function add(use: UsageCount, id = toId(use)): void {
    const count = counts.get(id);
    if (count) {
      count.requests += use.requests;
      count.cost += use.cost;
      count.errors += use.errors;
      count.refused += use.refused;
      count.lastAt = Math.max(count.lastAt, use.lastAt);
    } else if (counts.size < capacity) {
      const client = copyText(use.client);
      counts.set(copyText(id), { ...use, client, operation: copyText(use.operation) });
    } else lost += use.requests;
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
      isFailing = false;
    } catch (err) {
      for (const count of taken) add(count);
      if (!isFailing) log.warn({ err }, 'key usage cannot be stored yet; trying again');
      isFailing = true;
    }
  }
}

function toId({ keyId, day, operation, deprecated, client }: UsageCount): string {
  return `${day} ${keyId}\n${operation}\n${deprecated}\n${client}`;
}
