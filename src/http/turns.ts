import type { MaybePromise } from '../access/maybe-promise.js';
import { createBoundedCache } from '../bounded-cache.js';

/** A sender of requests, and its share of the event loop. */
export interface Caller {
  readonly name: string;
  /** Its requests in progress. */
  inProgress: number;
  /** The requests that wait for their turn. */
  readonly waiting: (() => void)[];
  /** When it may run again, in milliseconds of `performance.now()`: it has used its share until then. */
  restsUntil: number;
}

export type Turns = ReturnType<typeof createTurns>;

/** With fewer requests in progress, one caller is not made to wait for itself. */
const CROWD = 32;
/** Requests run for this long, in milliseconds, before the event loop looks at the connections again. */
const SLICE_MS = 3;
/** After a pass of the event loop longer than this, in milliseconds, the next slice is short: refusals come first. */
const LONG_TURN_MS = 15;
const SHORT_SLICE_MS = 1;
/** A caller that runs while nobody else could is not charged for this much of it, in milliseconds. */
const FREE_MS = 1;
/** A caller rests for as long as it ran, once for each other caller, but for at most this many. */
const MAX_OTHERS = 8;
/** The most callers whose rest is remembered after their last request. */
const REMEMBERED = 10_000;

/**
 * Shares the event loop between callers by the time that they use. Callers that wait run in rotation. A caller that has
 * run rests for as long as each of the others may run, so whoever does more work per turn gets fewer turns.
 */
export function createTurns() {
  const callers = new Map<string, Caller>();
  const rests = createBoundedCache<Pick<Caller, 'restsUntil'>>(REMEMBERED);
  /** The callers with waiting requests, in rotation. */
  const queue = new Set<Caller>();
  let inProgress = 0;
  /** Who runs, and since when. */
  let current: Caller | undefined;
  let since = 0;
  /** When this pass of the event loop ran its first request. */
  let turnStart: number | undefined;
  let isSliceDue = false;
  let timer: NodeJS.Timeout | undefined;
  let sliceEnd = 0;

  return {
    /** Finds or creates a caller, and counts a request in progress. */
    enter(name: string): Caller {
      const caller = callers.get(name) ?? {
        name,
        inProgress: 0,
        waiting: [],
        restsUntil: rests.get(name)?.restsUntil ?? 0,
      };
      callers.set(name, caller);
      caller.inProgress += 1;
      inProgress += 1;
      return caller;
    },
    /** Ends a request of the caller. */
    leave(caller: Caller): void {
      inProgress -= 1;
      caller.inProgress -= 1;
      if (caller.inProgress > 0) return;
      callers.delete(caller.name);
      if (caller.restsUntil > performance.now()) rests.set(caller.name, caller);
    },
    /**
     * Waits for the caller's turn. What the request does from then on, until it waits for something else, is charged to
     * the caller. While there is nobody to share with, the turn comes at once, unless the work may take long.
     */
    take(caller: Caller, isLong = false): MaybePromise<void> {
      if (callers.size === 1 && inProgress < CROWD && !isLong) return undefined;
      const now = performance.now();
      settle(now);
      watchTurn(now);
      if (queue.size === 0 && !isLong && now - (turnStart as number) <= SLICE_MS && caller.restsUntil <= now) {
        current = caller;
        return undefined;
      }
      return new Promise((resolve) => {
        caller.waiting.push(resolve);
        queue.add(caller);
        scheduleSlice(now);
      });
    },
    /** The number of callers with requests in progress. */
    active: (): number => callers.size,
    /** The requests that a caller has in progress. */
    inProgressOf: (name: string): number => callers.get(name)?.inProgress ?? 0,
  };

  /** Charges the time since the last call to the caller that ran. */
  function settle(now: number): void {
    if (current && callers.size > 1) {
      const used = now - since;
      const charged = isAnyoneReady(now, current) ? used : used - FREE_MS;
      if (charged > 0) {
        const others = Math.min(callers.size - 1, MAX_OTHERS);
        current.restsUntil = Math.max(now, current.restsUntil) + charged * others;
      }
    }
    current = undefined;
    since = now;
  }

  function isAnyoneReady(now: number, except: Caller): boolean {
    for (const caller of queue) if (caller !== except && caller.restsUntil <= now) return true;
    return false;
  }

  function watchTurn(now: number): void {
    if (turnStart !== undefined) return;
    turnStart = now;
    setImmediate(() => {
      settle(performance.now());
      turnStart = undefined;
    });
  }

  /** Starts a slice in the next pass of the event loop, or as soon as a caller that waits has rested. */
  function scheduleSlice(now: number): void {
    if (isSliceDue) return;
    clearTimeout(timer);
    const wait = earliest() - now;
    if (wait > 1) {
      timer = setTimeout(startSlice, wait, now + wait);
      return;
    }
    isSliceDue = true;
    setImmediate(startSlice, now);
  }

  function earliest(): number {
    let time = Infinity;
    for (const { restsUntil } of queue) time = Math.min(time, restsUntil);
    return time;
  }

  /** @param dueAt - when the slice was meant to start: the rest of that pass of the event loop came in between */
  function startSlice(dueAt: number): void {
    const now = performance.now();
    isSliceDue = true;
    clearTimeout(timer);
    sliceEnd = now + (now - dueAt > LONG_TURN_MS ? SHORT_SLICE_MS : SLICE_MS);
    step();
  }

  function step(): void {
    const now = performance.now();
    settle(now);
    const caller = now < sliceEnd ? findNext(now) : undefined;
    if (!caller) {
      isSliceDue = false;
      if (queue.size > 0) scheduleSlice(now);
      return;
    }
    queue.delete(caller);
    const resume = caller.waiting.shift() as () => void;
    if (caller.waiting.length > 0) queue.add(caller);
    current = caller;
    resume();
    // What the request does before it waits again, in promises, is part of its turn.
    queueMicrotask(() => process.nextTick(step));
  }

  function findNext(now: number): Caller | undefined {
    for (const caller of queue) if (caller.restsUntil <= now) return caller;
    return undefined;
  }
}
