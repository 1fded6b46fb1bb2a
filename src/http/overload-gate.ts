import type { IncomingMessage } from 'node:http';
import type { Exchange, Reply } from './exchange.js';
import type { Handler } from './server.js';

export interface OverloadGateOptions {
  /** How long an admitted request may be expected to take before newcomers are refused, in milliseconds. */
  readonly budgetMs: number;
  /** The same where very many are in progress: a long line is of no use to a server that is quick. */
  readonly crowdBudgetMs: number;
  /** Requests in progress that are never too many. */
  readonly floor?: number;
  /** Told when refusing begins, and how many were refused when it is over. */
  readonly onChange?: (refused: number | undefined) => void;
}

/** Keeps the requests in progress to what can be answered in time. */
export interface OverloadGate {
  /**
   * Lets what is admitted to a handler, in its turn.
   * @param refuse - answers what has waited in vain
   */
  guard(handler: Handler, refuse: (exchange: Exchange) => Reply): Handler;
  /** Whether a request that has just come is too much; true counts it as refused. */
  refuses(exchange: Exchange): boolean;
  /** Admitted requests that have no answer yet, without those whose body is still being sent. */
  readonly inProgress: number;
}

/** More requests in progress than this are very many: those of a client with 256 connections are not. */
const CROWD = 288;
/** Rate and duration are measured over this long, in milliseconds. */
const WINDOW_MS = 25;
/** Weight of the last window in the rate, at the least. */
const WEIGHT = 0.2;
/** Windows that make a rate to rely on. */
const RELIABLE_WINDOWS = 2;
/** Handlers start requests for this long, in milliseconds, before the connections are looked at again. */
const SLICE_MS = 3;
/** After a turn of the event loop that took longer than this, in milliseconds, the next starts little: refusing comes first. */
const LONG_TURN_MS = 15;
const SHORT_SLICE_MS = 1;
/** Whoever has waited in line for so many times the budget is refused after all. */
const LATE_BUDGETS = 2;
/** Without a refusal for this long, in milliseconds, an overload is over. */
const OVER_AFTER_MS = 1_000;

/** One admitted request. */
interface Passage {
  /** When it came, or when its body was there: what a slow sender takes is no work of ours. */
  since: number;
  isCounted: boolean;
  isOver: boolean;
}

/**
 * Makes the gate. Where requests take long and many are in progress, what finishes in a second says how many more will be
 * done in time (Little's law): beyond that, newcomers are refused at once instead of being answered too late. While all is well the gate is
 * two comparisons.
 *
 * A refusal is quick only if the event loop comes round quickly. So no turn of it starts requests for longer than a slice;
 * what is admitted beyond that waits in line for the next turn.
 */
export function createOverloadGate({
  budgetMs,
  crowdBudgetMs,
  floor = 32,
  onChange,
}: OverloadGateOptions): OverloadGate {
  let inProgress = 0;
  let limit = Infinity;
  let windowStart = performance.now();
  let finished = 0;
  let spentMs = 0;
  let meanMs = 0;
  /** Requests finished in a millisecond, since there were many. */
  let rate = 0;
  let crowdedWindows = 0;

  let turnStart: number | undefined;
  let line: (() => void)[] = [];
  let next = 0;
  let sliceStart = 0;

  let refused = 0;
  let refusedAt = 0;

  return {
    get inProgress() {
      return inProgress;
    },
    refuses({ startedAt, method }) {
      if (startedAt - windowStart >= WINDOW_MS) measure(startedAt);
      // A preflight is answered as quickly as it would be refused.
      if (inProgress < limit || method === 'OPTIONS') return false;
      countRefusal(startedAt);
      return true;
    },
    guard: (handler, refuse) => (exchange) =>
      inProgress >= floor && isTurnOver(exchange.startedAt)
        ? waitInLine(exchange, handler, refuse)
        : run(exchange, handler, admit(exchange.startedAt)),
  };

  function admit(since: number): Passage {
    inProgress += 1;
    return { since, isCounted: true, isOver: false };
  }

  async function run(exchange: Exchange, handler: Handler, passage: Passage): Promise<Reply> {
    if (exchange.method === 'POST') {
      queueMicrotask(() => {
        if (!exchange.request.complete) waitForBody(exchange.request, passage);
      });
    }
    try {
      return await handler(exchange);
    } finally {
      leave(passage);
    }
  }

  function leave(passage: Passage): void {
    passage.isOver = true;
    if (!passage.isCounted) return;
    inProgress -= 1;
    finished += 1;
    spentMs += performance.now() - passage.since;
  }

  function waitForBody(request: IncomingMessage, passage: Passage): void {
    if (passage.isOver) return;
    passage.isCounted = false;
    inProgress -= 1;
    request.once('end', () => {
      if (passage.isOver) return;
      passage.isCounted = true;
      passage.since = performance.now();
      inProgress += 1;
    });
  }

  function waitInLine(exchange: Exchange, handler: Handler, refuse: (exchange: Exchange) => Reply): Promise<Reply> {
    const passage = admit(exchange.startedAt);
    return new Promise((resolve) => {
      line.push(() => {
        const now = performance.now();
        const isTooLate = now - passage.since > LATE_BUDGETS * budgetMs;
        if (!isTooLate && !exchange.response.destroyed) {
          resolve(run(exchange, handler, passage));
          return;
        }
        inProgress -= 1;
        countRefusal(now);
        resolve(refuse(exchange));
      });
      if (line.length > 1) return;
      sliceStart = performance.now();
      setImmediate(startSlice);
    });
  }

  function startSlice(): void {
    const before = sliceStart;
    sliceStart = performance.now();
    const turnMs = sliceStart - before;
    const end = sliceStart + (turnMs > LONG_TURN_MS ? SHORT_SLICE_MS : SLICE_MS);
    const step = (): void => {
      (line[next++] as () => void)();
      if (next === line.length) {
        line = [];
        next = 0;
      } else if (performance.now() >= end) setImmediate(startSlice);
      // What the request does after its first await, and with its body, belongs to the slice too.
      else queueMicrotask(() => process.nextTick(step));
    };
    step();
  }

  /** Whether this turn of the event loop has started requests for long enough, or others are in line already. */
  function isTurnOver(now: number): boolean {
    if (line.length > 0) return true;
    if (turnStart === undefined) {
      turnStart = now;
      setImmediate(() => (turnStart = undefined));
    }
    return now - turnStart > SLICE_MS;
  }

  function measure(now: number): void {
    const elapsed = now - windowStart;
    if (inProgress < floor) {
      crowdedWindows = 0;
      meanMs = 0;
      limit = Infinity;
    } else {
      crowdedWindows += 1;
      rate += Math.max(WEIGHT, 1 / crowdedWindows) * (finished / elapsed - rate);
      meanMs = finished === 0 ? meanMs + elapsed : spentMs / finished;
      const crowdLimit = Math.max(CROWD, rate * crowdBudgetMs);
      if (meanMs > budgetMs / 2) limit = Math.max(floor, Math.min(rate * budgetMs, crowdLimit));
      else limit = crowdedWindows >= RELIABLE_WINDOWS && rate > 0 ? crowdLimit : Infinity;
    }
    windowStart = now;
    finished = 0;
    spentMs = 0;
    if (refused > 0 && now - refusedAt > OVER_AFTER_MS) {
      onChange?.(refused);
      refused = 0;
    }
  }

  function countRefusal(now: number): void {
    if (refused === 0) onChange?.(undefined);
    refused += 1;
    refusedAt = now;
  }
}
