import type { MaybePromise } from '../access/maybe-promise.js';
import { createBoundedCache } from '../bounded-cache.js';

/** A sender of requests, and its share of the event loop. */
export interface Caller {
  readonly name: string;
  inProgress: number;
  /** Those that have had their first turn, and when they arrived. */
  readonly running: Map<object, number>;
  readonly waiting: (() => void)[];
  /** How many of them get their turn together. */
  together: number;
  /** How long it has used the event loop, in milliseconds. A caller that is new counts from what others have used. */
  usedMs: number;
  /** Until when it is expected to have more to do, in milliseconds of `performance.now()`, though none waits. */
  expectedUntil: number;
}

/** Requests run for this long, in milliseconds, before the event loop looks at the connections again. */
const SLICE_MS = 1;
/** The same for a caller that is alone. */
const LONG_SLICE_MS = 3;
/** A turn of this length, in milliseconds, counts double, because all others wait while it lasts. */
const DOUBLE_MS = 5;
/** The most requests of a caller that get their turn together. */
const MAX_TOGETHER = 8;
/** The most that a caller may catch up after it had nothing to do, in milliseconds. */
const CREDIT_MS = 100;
/** The most callers that are remembered after their last request. */
const REMEMBERED = 10_000;

/**
 * Shares the event loop between callers by the time that they use (https://en.wikipedia.org/wiki/Fair_queuing): the
 * caller that has used least is next. While all its requests wait for the store, others that have used more leave it as
 * much time to go on as it has just used. Otherwise a caller with long turns would get one in each such moment. A caller
 * lives for as long as it has requests: an older one would keep what ends from being collected while it is young.
 */
export function createTurns() {
  const callers = new Map<string, Caller>();
  const remembered = createBoundedCache<Pick<Caller, 'usedMs'>>(REMEMBERED);
  /** The callers with requests that wait for a turn, and those that are expected. */
  const queue = new Set<Caller>();
  let waiting = 0;
  /** What the caller whose turn it is had used when its turn began. */
  let clock = 0;
  /** Who runs, and since when. */
  let current: Caller | undefined;
  let since = 0;
  let isSliceDue = false;
  let sliceEnd = 0;

  return {
    enter(name: string): Caller {
      const caller = callers.get(name) ?? create(name);
      caller.inProgress += 1;
      return caller;
    },
    /** Charges a caller for work that was done for it outside of its turns, in milliseconds. */
    charge(caller: Caller, milliseconds: number): void {
      caller.usedMs += milliseconds;
    },
    leave(caller: Caller): void {
      caller.inProgress -= 1;
      if (caller.inProgress > 0) return;
      callers.delete(caller.name);
      remember(caller);
    },
    /**
     * Waits for the caller's turn. What the request does from then on, until it waits for something else, is charged to
     * the caller. While there is nobody to share with, the turn comes at once, unless the work may take long.
     */
    take(caller: Caller, isLong = false): MaybePromise<void> {
      if (isLong) caller.together = 1;
      else {
        const isAlone = callers.size === 1 && waiting === 0;
        if ((isAlone || current === caller) && performance.now() < sliceEnd) return undefined;
      }
      return new Promise((resolve) => {
        if (caller.waiting.length === 0) caller.usedMs = Math.max(caller.usedMs, clock - CREDIT_MS);
        caller.waiting.push(resolve);
        waiting += 1;
        queue.add(caller);
        scheduleSlice();
      });
    },
  };

  function create(name: string): Caller {
    const usedMs = Math.max(remembered.get(name)?.usedMs ?? 0, clock);
    const caller = { name, inProgress: 0, running: new Map(), waiting: [], together: 1, usedMs, expectedUntil: 0 };
    callers.set(name, caller);
    return caller;
  }

  function remember({ name, usedMs }: Caller): void {
    if (usedMs > clock) remembered.set(name, { usedMs });
  }

  /** Starts a slice when the event loop has looked at the connections. */
  function scheduleSlice(): void {
    if (isSliceDue) return;
    isSliceDue = true;
    setImmediate(() => {
      sliceEnd = performance.now() + (callers.size === 1 ? LONG_SLICE_MS : SLICE_MS);
      step();
    });
  }

  /** Ends one turn and begins the next. A caller goes on until the end of the slice. */
  function step(): void {
    const now = performance.now();
    const last = current;
    if (last) endTurn(last, now);
    const next = now < sliceEnd ? (last?.waiting.length ? last : findNext(now)) : undefined;
    current = next;
    if (!next) {
      isSliceDue = false;
      if (waiting > 0) scheduleSlice();
      return;
    }
    clock = Math.max(clock, next.usedMs);
    since = now;
    const resumed = next.waiting.splice(0, next.together);
    waiting -= resumed.length;
    for (const resume of resumed) resume();
    // What the request does in promises is part of its turn, and so is a body that has arrived with it.
    queueMicrotask(() => process.nextTick(() => process.nextTick(step)));
  }

  function endTurn(caller: Caller, now: number): void {
    const used = now - since;
    caller.usedMs += used * (1 + used / DOUBLE_MS);
    caller.expectedUntil = now + used;
    if (caller.inProgress === 0) remember(caller);
    // Each turn costs a little, so short ones are taken together.
    if (used > SLICE_MS) caller.together = 1;
    else if (used < SLICE_MS / 2) caller.together = Math.min(2 * caller.together, MAX_TOGETHER);
  }

  /** The caller that has used least, if one of its requests waits. */
  function findNext(now: number): Caller | undefined {
    let next: Caller | undefined;
    for (const caller of queue) {
      if (caller.waiting.length === 0 && caller.expectedUntil <= now) queue.delete(caller);
      else if (!next || caller.usedMs < next.usedMs) next = caller;
    }
    return next?.waiting.length ? next : undefined;
  }
}
