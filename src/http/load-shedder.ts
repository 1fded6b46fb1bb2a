import type { IncomingMessage } from 'node:http';
import type { RequestContext, Reply } from './request-context.js';
import type { Handler } from './server.js';

export interface LoadShedderOptions {
  /** New requests are refused if they would take longer than this, in milliseconds. */
  readonly budgetMs: number;
  /** The same limit while very many requests are in progress: a fast server gains nothing from a long queue. */
  readonly crowdBudgetMs: number;
  /** With fewer requests in progress than this, none is refused. */
  readonly floor?: number;
  /** Called with undefined when an overload begins, and with the number of refused requests when it has ended. */
  readonly onChange?: (refused: number | undefined) => void;
}

/** Limits the number of requests in progress, so that each can be answered in time. */
export interface LoadShedder {
  /**
   * Wraps a handler. Admitted requests reach it in the order of their arrival.
   * @param refuse - answers a request that has waited for too long
   */
  guard(handler: Handler, refuse: (context: RequestContext) => Reply): Handler;
  /** Whether to refuse a request that has just arrived. If so, the request is counted as refused. */
  refuses(context: RequestContext): boolean;
}

/** More requests in progress than this count as very many. A client with 256 connections stays below it. */
const CROWD = 288;
/** The length of a measurement of rate and duration, in milliseconds. */
const MEASUREMENT_MS = 25;
/** The minimum weight of the latest measurement in the rate. */
const WEIGHT = 0.2;
/** A rate is reliable after this many measurements. */
const RELIABLE_MEASUREMENTS = 2;
/** Handlers start requests for this long, in milliseconds, before the event loop looks at the connections again. */
const SLICE_MS = 3;
/** After a turn of the event loop longer than this, in milliseconds, the next slice is short: refusals come first. */
const LONG_TURN_MS = 15;
const SHORT_SLICE_MS = 1;
/** A queued request is refused after this many times the budget. */
const LATE_BUDGETS = 2;
/** An overload ends after this long without a refusal, in milliseconds. */
const OVER_AFTER_MS = 1_000;

interface AdmittedRequest {
  /** When its head arrived, or the end of a body that was late: the time of a slow sender does not count. */
  since: number;
  isCounted: boolean;
  isOver: boolean;
}

/**
 * Creates the load shedder. When many requests are in progress and take long, the rate at which they finish tells how
 * many can be answered in time (Little's law). The load shedder refuses requests beyond that number at once. Without
 * overload it costs two comparisons per request.
 *
 * A refusal is fast only if the turns of the event loop are short. Each turn therefore starts requests for at most one
 * slice. The other admitted requests are queued for the next turn.
 */
export function createLoadShedder({ budgetMs, crowdBudgetMs, floor = 32, onChange }: LoadShedderOptions): LoadShedder {
  /** Admitted requests without an answer, except those whose body is still arriving. */
  let inProgress = 0;
  let limit = Infinity;
  let measuredAt = performance.now();
  let finished = 0;
  let spentMs = 0;
  let meanMs = 0;
  /** Requests finished per millisecond, measured since at least `floor` requests have been in progress. */
  let rate = 0;
  let crowdedMeasurements = 0;

  let turnStart: number | undefined;
  let queue: (() => void)[] = [];
  let next = 0;
  let sliceStart = 0;

  let refused = 0;
  let refusedAt = 0;

  return {
    refuses({ startedAt, method }) {
      if (startedAt - measuredAt >= MEASUREMENT_MS) measure(startedAt);
      // Answering a preflight takes no longer than refusing it.
      if (inProgress < limit || method === 'OPTIONS') return false;
      countRefusal(startedAt);
      return true;
    },
    guard: (handler, refuse) => (context) =>
      inProgress >= floor && isTurnOver(context.startedAt)
        ? enqueue(context, handler, refuse)
        : run(context, handler, admit(context.startedAt)),
  };

  function admit(since: number): AdmittedRequest {
    inProgress += 1;
    return { since, isCounted: true, isOver: false };
  }

  async function run(context: RequestContext, handler: Handler, admitted: AdmittedRequest): Promise<Reply> {
    if (context.method === 'POST') {
      queueMicrotask(() => {
        if (!context.request.complete) waitForBody(context.request, admitted);
      });
    }
    try {
      return await handler(context);
    } finally {
      leave(admitted);
    }
  }

  function leave(admitted: AdmittedRequest): void {
    admitted.isOver = true;
    if (!admitted.isCounted) return;
    inProgress -= 1;
    finished += 1;
    spentMs += performance.now() - admitted.since;
  }

  function waitForBody(request: IncomingMessage, admitted: AdmittedRequest): void {
    if (admitted.isOver) return;
    admitted.isCounted = false;
    inProgress -= 1;
    request.once('end', () => {
      if (admitted.isOver) return;
      admitted.isCounted = true;
      admitted.since = performance.now();
      inProgress += 1;
    });
  }

  function enqueue(
    context: RequestContext,
    handler: Handler,
    refuse: (context: RequestContext) => Reply,
  ): Promise<Reply> {
    const admitted = admit(context.startedAt);
    return new Promise((resolve) => {
      queue.push(() => {
        const now = performance.now();
        const isTooLate = now - admitted.since > LATE_BUDGETS * budgetMs;
        if (!isTooLate && !context.response.destroyed) {
          resolve(run(context, handler, admitted));
          return;
        }
        inProgress -= 1;
        countRefusal(now);
        resolve(refuse(context));
      });
      if (queue.length > 1) return;
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
      (queue[next++] as () => void)();
      if (next === queue.length) {
        queue = [];
        next = 0;
      } else if (performance.now() >= end) setImmediate(startSlice);
      // The request's work after its first await, and on its body, is part of this slice too.
      else queueMicrotask(() => process.nextTick(step));
    };
    step();
  }

  /** Whether this turn of the event loop has started requests for a whole slice, or requests are already queued. */
  function isTurnOver(now: number): boolean {
    if (queue.length > 0) return true;
    if (turnStart === undefined) {
      turnStart = now;
      setImmediate(() => (turnStart = undefined));
    }
    return now - turnStart > SLICE_MS;
  }

  function measure(now: number): void {
    const elapsed = now - measuredAt;
    if (inProgress < floor) {
      crowdedMeasurements = 0;
      meanMs = 0;
      limit = Infinity;
    } else {
      crowdedMeasurements += 1;
      rate += Math.max(WEIGHT, 1 / crowdedMeasurements) * (finished / elapsed - rate);
      meanMs = finished === 0 ? meanMs + elapsed : spentMs / finished;
      const crowdLimit = Math.max(CROWD, rate * crowdBudgetMs);
      if (meanMs > budgetMs / 2) limit = Math.max(floor, Math.min(rate * budgetMs, crowdLimit));
      else limit = crowdedMeasurements >= RELIABLE_MEASUREMENTS && rate > 0 ? crowdLimit : Infinity;
    }
    measuredAt = now;
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
