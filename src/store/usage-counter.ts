import { OTHER, type Use } from '../access/usage.js';
import type { Log } from '../observability/log.js';
import { repeat } from '../repeat.js';

/** How often a key was used in one way within an hour. Times are in milliseconds since the epoch. */
export interface UsageCount extends Pick<Use, 'keyId' | 'operation' | 'deprecated'> {
  /** Empty if the client sent no name. */
  readonly client: string;
  /** When the hour began. */
  readonly startsAt: number;
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
  /** The most counts in memory; as many again are allowed without names. */
  readonly capacity?: number;
}

/** The most counts in one statement. When this many are in memory, they are written at once. */
const BATCH_SIZE = 1_000;
/** The most counts per key between two writes. Further names count as `(other)`. */
const MAX_COUNTS_OF_KEY = 100;
const HOUR_MS = 3_600_000;

/** Creates a `UsageCounter` that counts in memory and writes the counts to the database every few seconds. */
export function createUsageCounter(options: UsageCounterOptions) {
  const { write, log, flushEveryMs = 5_000, capacity = 20_000 } = options;
  /** By key, then by everything else that is not a number. */
  let counts = new Map<string, Map<string, UsageCount>>();
  let size = 0;
  let notCounted = 0;
  let isFailing = false;
  let isClosed = false;
  let writing: Promise<void> | undefined;
  const stopWriting = repeat({ run: startWriting, pauseMs: () => flushEveryMs });

  return {
    count({ keyId, client = '', operation, deprecated, cost, outcome }: Use): void {
      if (isClosed) return;
      const lastAt = Date.now();
      add({
        ...{ keyId, client, operation, deprecated, cost, lastAt },
        startsAt: lastAt - (lastAt % HOUR_MS),
        requests: 1,
        errors: outcome === 'ok' ? 0 : 1,
        refused: outcome === 'refused' ? 1 : 0,
      });
      if (size >= BATCH_SIZE && !isFailing) void startWriting();
    },
    flush,
    /** Writes all counts once more. Later requests are not counted. */
    async close(): Promise<void> {
      isClosed = true;
      await stopWriting();
      await flush();
      const requests = take().reduce((sum, count) => sum + count.requests, notCounted);
      if (requests > 0) log.warn({ requests }, 'key usage could not be stored and is lost');
    },
  };

  function add(count: UsageCount): void {
    const { keyId, client, operation, deprecated, startsAt } = count;
    const ofKey = counts.get(keyId);
    const id = `${startsAt} ${operation} ${deprecated} ${client}`;
    const known = ofKey?.get(id);
    if (known) {
      known.requests += count.requests;
      known.cost += count.cost;
      known.errors += count.errors;
      known.refused += count.refused;
      known.lastAt = Math.max(known.lastAt, count.lastAt);
      return;
    }
    const other = toOther(operation);
    const hasName = client !== OTHER || operation !== other;
    if (hasName && (size >= capacity || (ofKey && ofKey.size >= MAX_COUNTS_OF_KEY))) {
      add({ ...count, client: OTHER, operation: other });
    } else if (size >= 2 * capacity) {
      notCounted += count.requests;
    } else {
      size += 1;
      if (ofKey) ofKey.set(id, count);
      else counts.set(keyId, new Map([[id, count]]));
    }
  }

  function take(): UsageCount[] {
    const taken = [...counts.values()].flatMap((ofKey) => [...ofKey.values()]);
    counts = new Map();
    size = 0;
    return taken;
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
    const taken = take();
    for (let start = 0; start < taken.length; start += BATCH_SIZE) {
      try {
        await write(taken.slice(start, start + BATCH_SIZE));
      } catch (err) {
        for (const count of taken.slice(start)) add(count);
        if (!isFailing) log.warn({ err }, 'key usage cannot be stored yet; trying again');
        isFailing = true;
        return;
      }
    }
    if (taken.length > 0) isFailing = false;
    if (notCounted > 0)
      log.warn({ requests: notCounted }, 'not all usage of keys was counted, because there was too much');
    notCounted = 0;
  }
}

/** There are few REST routes, but clients may give operations any name. Only routes contain a space. */
function toOther(operation: string): string {
  return operation.includes(' ') ? operation : OTHER;
}
