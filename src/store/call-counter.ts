import type { Log } from '../observability/log.js';
import {
  NO_NAMES,
  OTHER_CLIENTS,
  type DeprecatedCall,
  type DeprecatedCallCounter,
} from '../access/deprecated-calls.js';

/** How often a client called, as the database stores it. */
export interface CallCount extends DeprecatedCall {
  calls: number;
  /** Milliseconds since the epoch, like `lastAt`. */
  firstAt: number;
  lastAt: number;
}

/** Counts calls in memory and writes the counts to the database every few seconds. */
export interface CallCounter extends DeprecatedCallCounter {
  /** Writes all counts. Never rejects: counts that cannot be written stay in memory. */
  flush(): Promise<void>;
  /** Writes all counts once more. Later calls are not counted. */
  close(): Promise<void>;
}

export interface CallCounterOptions {
  /** Adds the counts to the database, all of them or none. */
  readonly write: (counts: readonly CallCount[]) => Promise<unknown>;
  readonly log: Log;
  /** The longest time between a call and its write, in milliseconds. */
  readonly flushEveryMs?: number;
  /** The most counts in memory; as many again are allowed for calls without a client name and for `(other)`. */
  readonly capacity?: number;
}

/** The most counts in one statement. When this many are in memory, they are written at once. */
const BATCH_SIZE = 1_000;
/** The most pairs of client and coordinate per key between two writes. Further clients count as `(other)`. */
const MAX_COUNTS_OF_KEY = 100;

export function createCallCounter(options: CallCounterOptions): CallCounter {
  const { write, log, flushEveryMs = 5_000, capacity = 20_000 } = options;
  /** By key, then by client and coordinate. */
  let counts = new Map<string, Map<string, CallCount>>();
  let size = 0;
  let notCounted = 0;
  let isFailing = false;
  let isClosed = false;
  let timer: NodeJS.Timeout | undefined;
  let writing: Promise<void> | undefined;

  return {
    count(call) {
      if (isClosed) return;
      const now = Date.now();
      add(call, 1, now, now);
      if (size >= BATCH_SIZE && !isFailing) void startWriting();
      else timer ??= setTimeout(() => void startWriting(), flushEveryMs).unref();
    },
    flush,
    async close() {
      isClosed = true;
      await flush();
      const calls = take().reduce((sum, count) => sum + count.calls, notCounted);
      if (calls > 0) log.warn({ calls }, 'calls of what is deprecated could not be written down, and are forgotten');
    },
  };

  function add(call: DeprecatedCall, calls: number, firstAt: number, lastAt: number): void {
    const { keyId, client = '', coordinate } = call;
    const ofKey = counts.get(keyId);
    const id = `${coordinate} ${client}`;
    const known = ofKey?.get(id);
    if (known) {
      known.calls += calls;
      known.firstAt = Math.min(known.firstAt, firstAt);
      known.lastAt = Math.max(known.lastAt, lastAt);
    } else if (!NO_NAMES.includes(client) && (size >= capacity || (ofKey && ofKey.size >= MAX_COUNTS_OF_KEY))) {
      add({ ...call, client: OTHER_CLIENTS }, calls, firstAt, lastAt);
    } else if (size >= 2 * capacity) {
      notCounted += calls;
    } else {
      const count = { ...call, calls, firstAt, lastAt };
      size += 1;
      if (ofKey) ofKey.set(id, count);
      else counts.set(keyId, new Map([[id, count]]));
    }
  }

  function take(): CallCount[] {
    const taken = [...counts.values()].flatMap((ofKey) => [...ofKey.values()]);
    counts = new Map();
    size = 0;
    return taken;
  }

  async function flush(): Promise<void> {
    await writing;
    await startWriting();
  }

  function startWriting(): Promise<void> {
    clearTimeout(timer);
    timer = undefined;
    writing ??= writeAll().finally(() => {
      writing = undefined;
      if (size > 0 && !isClosed) timer ??= setTimeout(() => void startWriting(), flushEveryMs).unref();
    });
    return writing;
  }

  async function writeAll(): Promise<void> {
    const taken = take();
    for (let start = 0; start < taken.length; start += BATCH_SIZE) {
      try {
        await write(taken.slice(start, start + BATCH_SIZE));
      } catch (err) {
        for (const count of taken.slice(start)) add(count, count.calls, count.firstAt, count.lastAt);
        if (!isFailing) log.warn({ err }, 'calls of what is deprecated cannot be written down; it will be tried again');
        isFailing = true;
        return;
      }
    }
    if (taken.length > 0) isFailing = false;
    if (notCounted > 0) log.warn({ calls: notCounted }, 'calls of what is deprecated were too many to be counted');
    notCounted = 0;
  }
}
