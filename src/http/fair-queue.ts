import type { MaybePromise } from '../access/maybe-promise.js';
import { overloaded, toStoreError } from '../errors.js';

export interface FairQueueOptions<Result> {
  /** A request that has waited longer than this is refused, in milliseconds. */
  readonly lateMs: number;
  /** Estimates what the event loop does for a result, or for an error, besides the synchronous part of the task. In ms. */
  readonly weigh: (result: Result | undefined) => number;
}

/**
 * Runs the task of a request when it is the caller's turn, at once if nothing stands in the way.
 * @throws StoreError `overloaded` when the request has waited too long, or too many of its caller wait
 */
export type FairQueue<Result> = (caller: string, task: () => MaybePromise<Result>) => MaybePromise<Result>;

/** What is known of a caller: a key, or an address without a valid one. */
interface Caller {
  running: number;
  isActive: boolean;
  /** What it has used of the event loop beyond its share, in milliseconds, and when this was reckoned. */
  debtMs: number;
  reckonedAt: number;
  /** What one of its requests takes, in milliseconds: a moving average. */
  averageMs: number;
  readonly waiting: WaitingRequest[];
}

interface WaitingRequest {
  readonly since: number;
  readonly start: () => void;
  readonly refuse: (error: Error) => void;
}

/** The most requests that run at once, in all and of one caller. Others wait. */
const MAX_RUNNING = 256;
const MAX_RUNNING_OF_CALLER = 64;
/** The most requests of one caller that wait. */
const MAX_WAITING_OF_CALLER = 256;
/** The part of the event loop that callers with much work share while others are active. */
const SHARE = 0.7;
/** The work that one caller may have in progress, in milliseconds: beside others, and alone. */
const IN_PROGRESS_MS = 100;
const IN_PROGRESS_ALONE_MS = 400;
/** How far a caller may exceed its share before it waits, in milliseconds. */
const BURST_MS = 5;
/** The most that a caller owes, in milliseconds. */
const MAX_DEBT_MS = 500;
/**
 * When the requests of one turn of the event loop have taken this long, the others wait for the next turn, in
 * milliseconds. Node accepts one connection a turn, so long turns would keep new clients out.
 */
const TURN_MS = 10;
/** What is assumed of the first request of a caller, in milliseconds. */
const FIRST_GUESS_MS = 2;
/** A caller counts as active for this long after its last request, in milliseconds. */
const ACTIVE_MS = 500;
const COUNT_EVERY_MS = 50;
/** How much more than measured a request may count for. */
const MAX_FACTOR = 2;
/** The most callers that are remembered, and for how long, in milliseconds. */
const MAX_CALLERS = 10_000;
const REMEMBERED_MS = 60_000;

/**
 * Creates the queue at the door. While several callers are active, those with much work share a part of the event loop:
 * one that has used more than its share waits until time has made up for it, so that the requests of others find the
 * event loop free. A caller that is alone waits only for its own requests.
 */
export function createFairQueue<Result>({ lateMs, weigh }: FairQueueOptions<Result>): FairQueue<Result> {
  const callers = new Map<string, Caller>();
  const queue = new Set<Caller>();
  let running = 0;
  /** What the requests of this turn of the event loop have taken, in milliseconds. */
  let turnMs = 0;
  let isTurnCounted = false;
  /** How many callers are active. */
  let active = 0;
  /** The part of the event loop that one caller may use beside others. */
  let share = 1;
  /** What the event loop does beyond what the queue measures is spread over all requests by this factor. */
  let factor = 1;
  let measuredMs = 0;
  let activeMs = 0;
  let countedAt = 0;
  let isStarting = false;
  let timer: NodeJS.Timeout | undefined;

  return (name, task) => {
    const now = performance.now();
    const caller = find(name, now);
    if (caller.waiting.length === 0 && mayStart(caller, now)) return run(caller, task);
    if (caller.waiting.length >= MAX_WAITING_OF_CALLER) throw overloaded();
    return new Promise((resolve, reject) => {
      const start = (): void => {
        try {
          resolve(run(caller, task));
        } catch (error) {
          reject(toStoreError(error));
        }
      };
      caller.waiting.push({ since: now, start, refuse: reject });
      queue.add(caller);
      schedule(now);
    });
  };

  function find(name: string, now: number): Caller {
    countCallers(now);
    const known = callers.get(name);
    const caller = known ?? {
      running: 0,
      isActive: true,
      debtMs: 0,
      reckonedAt: now,
      averageMs: FIRST_GUESS_MS,
      waiting: [],
    };
    if (!known) callers.set(name, caller);
    caller.isActive = true;
    reckon(caller, now);
    return caller;
  }

  function countCallers(now: number): void {
    const elapsedMs = now - countedAt;
    if (elapsedMs < COUNT_EVERY_MS) return;
    countedAt = now;
    const busyMs = performance.eventLoopUtilization().active - activeMs;
    activeMs += busyMs;
    factor = Math.min(MAX_FACTOR, Math.max(1, busyMs / Math.max(1, measuredMs)));
    measuredMs = 0;
    active = 0;
    let indebted = 0;
    for (const [name, caller] of callers) {
      const idleMs = now - caller.reckonedAt;
      caller.isActive = caller.running > 0 || caller.waiting.length > 0 || idleMs < ACTIVE_MS;
      if (caller.isActive) {
        active += 1;
        if (caller.debtMs > BURST_MS) indebted += 1;
      } else if (idleMs > REMEMBERED_MS || callers.size > MAX_CALLERS) callers.delete(name);
    }
    share = SHARE / Math.max(1, indebted);
    // What is left of their part of the event loop makes up for debts, too: requests may count for more than they take.
    const leftMs = (Math.max(0, SHARE * elapsedMs - busyMs) * factor) / Math.max(1, indebted);
    for (const caller of callers.values()) caller.debtMs = Math.max(0, caller.debtMs - leftMs);
  }

  /** Whether no other caller is active. */
  function isAlone(caller: Caller): boolean {
    return active === 0 || (active === 1 && caller.isActive);
  }

  /** Pays back a caller's debt with the share of the time that has passed. */
  function reckon(caller: Caller, now: number): void {
    const debtMs = Math.max(0, caller.debtMs - (now - caller.reckonedAt) * share);
    // Who was alone has taken nothing from others.
    caller.debtMs = Math.min(debtMs, isAlone(caller) ? BURST_MS : MAX_DEBT_MS);
    caller.reckonedAt = now;
  }

  /** While every active caller waits because of its debt, time would pass for nobody: all owe less by the least of these. */
  function forgive(): void {
    if (running > 0 || queue.size < active) return;
    const leastMs = Math.min(...[...queue].map(({ debtMs }) => debtMs)) - BURST_MS;
    if (leastMs > 0) for (const caller of queue) caller.debtMs -= leastMs;
  }

  function mayStart(caller: Caller, now: number): boolean {
    if (running >= MAX_RUNNING || turnMs > TURN_MS) return false;
    const inProgressMs = isAlone(caller) ? IN_PROGRESS_ALONE_MS : IN_PROGRESS_MS;
    if (caller.running >= Math.max(1, Math.min(MAX_RUNNING_OF_CALLER, inProgressMs / caller.averageMs))) return false;
    reckon(caller, now);
    return caller.debtMs <= BURST_MS;
  }

  function run(caller: Caller, task: () => MaybePromise<Result>): MaybePromise<Result> {
    running += 1;
    caller.running += 1;
    if (!isTurnCounted) {
      isTurnCounted = true;
      setImmediate(endTurn);
    }
    const startedAt = performance.now();
    let usedMs = 0;
    const finish = (result?: Result): void => {
      usedMs += weigh(result);
      measuredMs += usedMs;
      usedMs *= factor;
      running -= 1;
      caller.running -= 1;
      caller.debtMs += usedMs;
      caller.averageMs += (usedMs - caller.averageMs) / 4;
      if (queue.size > 0) startWaiting();
    };
    let result: MaybePromise<Result>;
    try {
      result = task();
    } catch (error) {
      usedMs = performance.now() - startedAt;
      turnMs += usedMs;
      finish();
      throw error;
    }
    usedMs = performance.now() - startedAt;
    turnMs += usedMs;
    if (result instanceof Promise) result.then(finish, () => finish());
    else finish(result);
    return result;
  }

  function endTurn(): void {
    isTurnCounted = false;
    turnMs = 0;
    if (queue.size > 0) startWaiting();
  }

  /** Starts one request of each caller in turn, until none may start, and refuses those that have waited too long. */
  function startWaiting(): void {
    if (isStarting) return;
    isStarting = true;
    const now = performance.now();
    countCallers(now);
    forgive();
    const blocked: Caller[] = [];
    // A caller that is added again while the loop runs gets its next turn after the others.
    for (const caller of queue) {
      queue.delete(caller);
      while ((caller.waiting[0]?.since ?? now) < now - lateMs) caller.waiting.shift()?.refuse(overloaded());
      if (caller.waiting.length === 0) continue;
      if (mayStart(caller, now)) {
        caller.waiting.shift()?.start();
        queue.add(caller);
      } else blocked.push(caller);
    }
    for (const caller of blocked) queue.add(caller);
    isStarting = false;
    if (queue.size > 0) schedule(now);
  }

  /** Looks again when the first waiting caller has paid its debt, or has waited too long. */
  function schedule(now: number): void {
    let waitMs = running === 0 && queue.size >= active ? 0 : lateMs;
    for (const { waiting, debtMs, running: itsRunning } of queue) {
      // The end of a request that runs wakes its caller.
      const isToWake = debtMs > BURST_MS || (itsRunning === 0 && running < MAX_RUNNING);
      if (isToWake) waitMs = Math.min(waitMs, Math.max(0, debtMs - BURST_MS) / share);
      waitMs = Math.min(waitMs, (waiting[0]?.since ?? now) + lateMs - now);
    }
    clearTimeout(timer);
    timer = setTimeout(startWaiting, Math.max(1, Math.ceil(waitMs)));
  }
}
