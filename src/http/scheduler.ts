import type { IncomingMessage } from 'node:http';
import { createBoundedCache } from '../bounded-cache.js';
import type { Log } from '../observability/log.js';
import type { RequestContext, Reply } from './request-context.js';
import type { Handler } from './server.js';
import { createTurns, type Caller } from './turns.js';

export interface SchedulerOptions {
  /** New requests are refused if they would take longer than this, in milliseconds. */
  readonly budgetMs: number;
  /** The same limit while very many requests are in progress: a fast server gains nothing from a long queue. */
  readonly crowdBudgetMs: number;
  readonly log: Log;
}

/** With fewer requests in progress than this, none is refused. */
const FLOOR = 32;
/** More requests in progress than this count as very many. A client with 256 connections stays below it. */
const CROWD = 288;
/** The length of a measurement of rate and duration, in milliseconds. */
const MEASUREMENT_MS = 25;
/** The minimum weight of the latest measurement in the rate. */
const WEIGHT = 0.2;
/** A rate is reliable after this many measurements. */
const RELIABLE_MEASUREMENTS = 2;
/** A request that waited for its first turn is refused after this many times the budget. */
const LATE_BUDGETS = 2;
/** An overload ends after this long without a refusal, in milliseconds. */
const OVER_AFTER_MS = 1_000;
/** The most keys whose callers are remembered. */
const KNOWN_KEYS = 50_000;
/** Longer `Authorization` headers are not remembered. */
const LONGEST_KEPT = 256;

/** The reply to a client that has disconnected. */
const NOT_SENT: Reply = { status: 499, headers: {}, body: '' };

interface AdmittedRequest {
  readonly caller: Caller;
  /** When its head arrived, or the end of a body that was late: the time of a slow sender does not count. */
  since: number;
  isCounted: boolean;
  isOver: boolean;
}

/**
 * Creates the scheduler, which decides which requests run and when. Callers share the event loop by the time that they
 * use (`turns.ts`): a key that has been valid before is a caller, and all others are known by their address.
 *
 * When many requests are in progress and take long, the rate at which they finish tells how many can be answered in
 * time (Little's law). The scheduler refuses requests beyond that number at once, unless their caller has fewer of them
 * in progress than its share.
 */
export function createScheduler({ budgetMs, crowdBudgetMs, log }: SchedulerOptions) {
  const turns = createTurns();
  const names = createBoundedCache<{ readonly name: string }>(KNOWN_KEYS);
  /** Admitted requests without an answer, except those whose body is still arriving. */
  let inProgress = 0;
  let limit = Infinity;
  let measuredAt = performance.now();
  let finished = 0;
  let spentMs = 0;
  let meanMs = 0;
  /** Requests finished per millisecond, measured since at least `FLOOR` requests have been in progress. */
  let rate = 0;
  let crowdedMeasurements = 0;

  let refused = 0;
  let refusedAt = 0;

  return {
    /** Whether to refuse a request that has just arrived. If so, the request is counted as refused. */
    refuses(context: RequestContext): boolean {
      const { startedAt, method } = context;
      if (startedAt - measuredAt >= MEASUREMENT_MS) measure(startedAt);
      // Answering a preflight takes no longer than refusing it.
      if (inProgress < limit || method === 'OPTIONS') return false;
      if (turns.inProgressOf(nameCaller(context)) < limit / (turns.active() + 1)) return false;
      countRefusal(startedAt);
      return true;
    },
    /**
     * Wraps a handler. Requests reach it in turns of their callers.
     * @param refuse - answers a request that has waited for too long
     */
    guard(handler: Handler, refuse: (context: RequestContext) => Reply): Handler {
      return (context) => {
        const caller = turns.enter(nameCaller(context));
        const admitted = { caller, since: context.startedAt, isCounted: true, isOver: false };
        inProgress += 1;
        context.caller = caller.name;
        context.takeTurn = (isLong) => turns.take(caller, isLong);
        context.identify = (keyId) => {
          const authorization = context.header('authorization');
          if (authorization === undefined || caller.name === keyId) return;
          // A valid header can carry up to 16 kB of white space, which would be remembered too.
          if (authorization.length <= LONGEST_KEPT) names.set(authorization, { name: keyId });
        };
        const turn = turns.take(caller);
        if (!turn) return run(context, handler, admitted);
        return turn.then(() => {
          const now = performance.now();
          const isGone = context.response.destroyed;
          const isTooLate = now - admitted.since > LATE_BUDGETS * budgetMs;
          if (!isTooLate && !isGone) return run(context, handler, admitted);
          leave(admitted);
          if (isGone) return NOT_SENT;
          countRefusal(now);
          return refuse(context);
        });
      };
    },
  };

  function nameCaller(context: RequestContext): string {
    const authorization = context.header('authorization');
    const known = authorization === undefined ? undefined : names.get(authorization);
    return known?.name ?? context.client.network;
  }

  async function run(context: RequestContext, handler: Handler, admitted: AdmittedRequest): Promise<Reply> {
    if (context.method === 'POST' || context.method === 'QUERY') {
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
    turns.leave(admitted.caller);
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

  function measure(now: number): void {
    const elapsed = now - measuredAt;
    if (inProgress < FLOOR) {
      crowdedMeasurements = 0;
      meanMs = 0;
      limit = Infinity;
    } else {
      crowdedMeasurements += 1;
      rate += Math.max(WEIGHT, 1 / crowdedMeasurements) * (finished / elapsed - rate);
      meanMs = finished === 0 ? meanMs + elapsed : spentMs / finished;
      const crowdLimit = Math.max(CROWD, rate * crowdBudgetMs);
      if (meanMs > budgetMs / 2) limit = Math.max(FLOOR, Math.min(rate * budgetMs, crowdLimit));
      else limit = crowdedMeasurements >= RELIABLE_MEASUREMENTS && rate > 0 ? crowdLimit : Infinity;
    }
    measuredAt = now;
    finished = 0;
    spentMs = 0;
    if (refused > 0 && now - refusedAt > OVER_AFTER_MS) {
      log.warn({ refused }, 'no longer overloaded');
      refused = 0;
    }
  }

  function countRefusal(now: number): void {
    if (refused === 0) log.warn('overloaded: requests are refused');
    refused += 1;
    refusedAt = now;
  }
}
