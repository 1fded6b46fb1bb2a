import { createBoundedCache } from '../bounded-cache.js';
import type { Log } from '../observability/log.js';
import type { RequestContext, Reply } from './request-context.js';
import type { Handler } from './server.js';
import { createTurns, type Caller } from './turns.js';

export interface Overload {
  /** Requests that have been in progress for longer than this, in milliseconds, are late. */
  readonly lateMs: number;
  /** Answers a request because of overload, if it may be refused. */
  readonly refuse: (context: RequestContext) => Reply | undefined;
}

/** A caller with this many late requests gets no more. */
const MAX_LATE = 32;
/** What a caller is charged, in milliseconds, for each request: Node reads and writes it outside of turns. */
const REQUEST_MS = 0.03;
/** An overload ends after this long without a refusal, in milliseconds. */
const OVER_AFTER_MS = 1_000;
/** The most keys whose callers are remembered. */
const KNOWN_KEYS = 50_000;
/** Longer `Authorization` headers are not remembered: a valid one can have 16 kB of white space. */
const LONGEST_KEPT = 256;

/** The reply to a client that has disconnected. */
const NOT_SENT: Reply = { status: 499, headers: {}, body: '' };

/**
 * Creates the scheduler, which decides when a request runs, and whether. Callers share the event loop by the time that
 * they use (`turns.ts`): a key that has been valid before is a caller, and all others are known by their address. When
 * the turn of a request comes, it is refused if it is late, or if too many requests of its caller are.
 */
export function createScheduler(log: Log) {
  const turns = createTurns();
  const names = createBoundedCache<{ readonly name: string }>(KNOWN_KEYS);
  let refused = 0;
  let refusedAt = 0;

  /** Wraps a handler. All wrapped handlers share the event loop. */
  return (handler: Handler, overload?: Overload): Handler =>
    async (context) => {
      const known = names.get(context.header('authorization') ?? '');
      const caller = turns.enter(known?.name ?? context.client.network);
      context.caller = caller.name;
      context.takeTurn = (isLong) => turns.take(caller, isLong);
      context.charge = (milliseconds) => turns.charge(caller, milliseconds);
      context.identify = (keyId) => {
        context.caller = keyId;
        const authorization = context.header('authorization');
        if (authorization === undefined || caller.name === keyId) return;
        if (authorization.length <= LONGEST_KEPT) names.set(authorization, { name: keyId });
      };
      try {
        const turn = turns.take(caller);
        if (turn) await turn;
        if (context.response.destroyed) return NOT_SENT;
        const refusal =
          overload && isOverloaded(context, caller, overload.lateMs) ? overload.refuse(context) : undefined;
        noteOverload(refusal !== undefined);
        const reply = refusal ?? (await run(context, caller, handler));
        turns.charge(caller, REQUEST_MS);
        return reply;
      } finally {
        turns.leave(caller);
      }
    };

  function isOverloaded({ startedAt }: RequestContext, { running }: Caller, lateMs: number): boolean {
    const lateSince = performance.now() - lateMs;
    if (startedAt < lateSince) return true;
    let late = 0;
    // The earliest come first.
    for (const since of running.values()) {
      if (since > lateSince) return false;
      late += 1;
      if (late === MAX_LATE) return true;
    }
    return false;
  }

  function noteOverload(isRefused: boolean): void {
    if (isRefused) {
      if (refused === 0) log.warn('overloaded: requests are refused');
      refused += 1;
      refusedAt = performance.now();
    } else if (refused > 0 && performance.now() - refusedAt > OVER_AFTER_MS) {
      log.warn({ refused }, 'no longer overloaded');
      refused = 0;
    }
  }

  async function run(context: RequestContext, { running }: Caller, handler: Handler): Promise<Reply> {
    const { request, method } = context;
    let isOver = false;
    running.set(context, context.startedAt);
    if (method === 'POST' || method === 'QUERY') {
      queueMicrotask(() => {
        if (request.complete || isOver) return;
        // The time of a slow sender does not count.
        running.delete(context);
        request.once('end', () => {
          if (!isOver) running.set(context, performance.now());
        });
      });
    }
    try {
      return await handler(context);
    } finally {
      isOver = true;
      running.delete(context);
    }
  }
}
