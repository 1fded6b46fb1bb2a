import type { MaybePromise } from '../access/maybe-promise.js';
import { overloaded } from '../errors.js';

// All times are in milliseconds.

export interface FairQueueOptions<Result> {
  /** A request that has waited longer than this is refused. */
  readonly lateMs: number;
  /** Estimates what the event loop does for a result, or for an error, besides the synchronous part of the task. */
  readonly weigh: (result: Result | undefined) => number;
}

/**
 * Runs the task of a request when it is the caller's turn, at once if nothing stands in the way.
 * @param usedMs - what the event loop has done for the request already
 * @param isUrgent - whether the caller's requests start even while others have taken all places
 * @throws StoreError `overloaded` when the request has waited too long, or too many of its caller wait
 */
export type FairQueue<Result> = (
  caller: string,
  task: () => MaybePromise<Result>,
  usedMs?: number,
  isUrgent?: boolean,
) => MaybePromise<Result>;

/** A key, or an address without a valid one. */
interface Caller {
  readonly isUrgent: boolean;
  running: number;
  /** What it has used of the event loop beyond its share, at `seenAt`. */
  debtMs: number;
  seenAt: number;
  /** What one of its requests takes: a moving average. */
  averageMs: number;
  readonly waiting: { readonly since: number; readonly start: () => void; readonly refuse: (error: Error) => void }[];
}

/** The most requests that run at once, in all and of one caller. Others wait. */
const MAX_RUNNING = 256;
const MAX_RUNNING_OF_CALLER = 64;
/** The work that one caller may have in progress. */
const MAX_RUNNING_MS = 100;
/** What is assumed of the first request of a caller, unless those of all callers take less. */
const FIRST_GUESS_MS = 2;
/** The most requests of one caller that wait. A client beyond it has to connect again, which takes it longer. */
const MAX_WAITING_OF_CALLER = 1_000;
const CLOSING = { Connection: 'close' };
/** How far a caller may exceed its share before it waits, and the most that it owes. */
const BURST_MS = 5;
const MAX_DEBT_MS = 500;
/**
 * Callers in debt together get a part of the event loop. It falls while the loop is busier than `BUSY`, and rises while
 * it is less busy.
 */
const BUSY = 0.85;
const MIN_SHARE = 0.2;
const MAX_SHARE = 1;
const MEASURE_EVERY_MS = 50;
/** A caller is forgotten so long after its last request. */
const ACTIVE_MS = 500;
/**
 * When the requests of one turn of the event loop have taken this long, the others wait for the next turn. Node accepts
 * one connection a turn, so long turns would keep new clients out.
 */
const TURN_MS = 5;
/** How often callers that wait are looked at while nothing else happens. */
const LOOK_EVERY_MS = 2;

/**
 * Creates the queue at the door. While several callers are active, those with much work share a part of the event loop:
 * one that has used more than its share waits until its debt has shrunk, so that the requests of others find the
 * event loop free. A caller that is alone waits only for its own requests.
 */
export function createFairQueue<Result>({ lateMs, weigh }: FairQueueOptions<Result>): FairQueue<Result> {
  /** Those that have sent a request lately, and those of them that wait. */
  const callers = new Map<string, Caller>();
  let queue: Caller[] = [];
  let running = 0;
  /** What a request of any caller takes. */
  let averageMs = FIRST_GUESS_MS;
  /** What the requests of this turn of the event loop have taken, each at least the average of its caller. */
  let turnMs = 0;
  let endOfTurn: NodeJS.Immediate | undefined;
  let timer: NodeJS.Timeout | undefined;
  /** The part of the event loop for all callers that wait. */
  let share = MAX_SHARE;
  let measuredAt = 0;
  let busyMs = 0;

  return (name, task, alreadyUsedMs = 0, isUrgent = false) => {
    const now = performance.now();
    measure(now);
    let caller = callers.get(name);
    if (!caller) {
      caller = {
        isUrgent,
        running: 0,
        debtMs: 0,
        seenAt: now,
        averageMs: Math.min(averageMs, FIRST_GUESS_MS),
        waiting: [],
      };
      callers.set(name, caller);
    }
    pay(caller, now);
    const { waiting } = caller;
    if (waiting.length === 0 && mayStart(caller)) return run(caller, task, alreadyUsedMs);
    if (waiting.length >= MAX_WAITING_OF_CALLER) throw overloaded(CLOSING);
    if (waiting.length === 0) queue.push(caller);
    timer ??= setTimeout(startWaiting, LOOK_EVERY_MS);
    const start = async (): Promise<Result> => await run(caller, task, alreadyUsedMs);
    return new Promise((resolve, refuse) => waiting.push({ since: now, start: () => resolve(start()), refuse }));
  };

  /** Forgets the callers that have left, and finds out how fast debts may shrink. */
  function measure(now: number): void {
    const elapsedMs = now - measuredAt;
    if (elapsedMs < MEASURE_EVERY_MS) return;
    const { active } = performance.eventLoopUtilization();
    share = Math.min(MAX_SHARE, Math.max(MIN_SHARE, (share * BUSY * elapsedMs) / (active - busyMs)));
    measuredAt = now;
    busyMs = active;
    for (const [name, caller] of callers)
      if (caller.running + caller.waiting.length === 0 && now - caller.seenAt > ACTIVE_MS) callers.delete(name);
  }

  function pay(caller: Caller, now: number): void {
    caller.debtMs = Math.max(0, caller.debtMs - ((now - caller.seenAt) * share) / Math.max(1, queue.length));
    caller.seenAt = now;
  }

  function mayStart({ isUrgent, running: itsRunning, debtMs, averageMs: itsMs }: Caller): boolean {
    if ((running >= MAX_RUNNING && !isUrgent) || turnMs > TURN_MS) return false;
    if (itsRunning >= Math.max(1, Math.min(MAX_RUNNING_OF_CALLER, MAX_RUNNING_MS / itsMs))) return false;
    return debtMs <= BURST_MS || callers.size === 1;
  }

  function run(caller: Caller, task: () => MaybePromise<Result>, alreadyUsedMs: number): MaybePromise<Result> {
    running += 1;
    caller.running += 1;
    endOfTurn ??= setImmediate(endTurn);
    const startedAt = performance.now();
    let usedMs = 0;
    const finish = (result?: Result): void => {
      usedMs += alreadyUsedMs + weigh(result);
      running -= 1;
      caller.running -= 1;
      caller.averageMs += (usedMs - caller.averageMs) / 4;
      averageMs += (usedMs - averageMs) / 32;
      // A caller that is alone takes nothing from others.
      if (callers.size > 1) caller.debtMs = Math.min(MAX_DEBT_MS, caller.debtMs + usedMs);
      if (queue.length > 0) endOfTurn ??= setImmediate(endTurn);
    };
    let result: MaybePromise<Result> | undefined;
    try {
      result = task();
      return result;
    } finally {
      usedMs = performance.now() - startedAt;
      // What it does after it has waited may still fall into this turn.
      turnMs += Math.max(alreadyUsedMs + usedMs, caller.averageMs);
      if (result instanceof Promise) result.then(finish, () => finish());
      else finish(result);
    }
  }

  function endTurn(): void {
    endOfTurn = undefined;
    turnMs = 0;
    if (queue.length > 0) startWaiting();
  }

  /** Starts one request of each caller in turn, until none may start, and refuses those that have waited too long. */
  function startWaiting(): void {
    clearTimeout(timer);
    timer = undefined;
    const now = performance.now();
    measure(now);
    for (const caller of queue) pay(caller, now);
    // While all wait because of their debts, the one that owes least goes on.
    if (running === 0 && queue.length === callers.size) {
      const leastMs = Math.min(...Array.from(queue, ({ debtMs }) => debtMs));
      for (const caller of queue) caller.debtMs -= leastMs;
    }
    const left: Caller[] = [];
    for (const caller of queue) {
      const { waiting } = caller;
      while ((waiting[0]?.since ?? now) < now - lateMs) waiting.shift()?.refuse(overloaded());
      if (waiting.length === 0) continue;
      if (mayStart(caller)) {
        waiting.shift()?.start();
        // Its next turn comes after those of the others.
        queue.push(caller);
      } else left.push(caller);
    }
    queue = left;
    if (queue.length > 0) timer = setTimeout(startWaiting, LOOK_EVERY_MS);
  }
}
