import type { Int64 } from '../../pets/int64.js';
import { createRetryBudget } from '../../proxy/retry-budget.js';
import { TransportFailure, type GraphqlTransport } from './graphql-transport.js';
import { createKeyLimits } from './key-limits.js';
import { Lookup, type Settle } from './lookup.js';
import { readLookupAnswer, type LookupAnswer, type LookupResult } from './lookup-answer.js';
import { toLookupBody } from './lookup-document.js';
import type { Failure } from './pet-error.js';
import { growingPauseMs, MAX_REPEATS, RETRY_RESERVE, RETRY_SHARE, toRepeat } from './repeats.js';

/** Collects lookups and asks them together. */
export interface LookupBatcher {
  /**
   * Asks for one id, together with what else is asked for in this turn of the event loop.
   * @returns how to leave again, before it is settled
   */
  ask(id: Int64, settle: Settle): () => void;
}

export interface LookupBatcherOptions {
  readonly transport: GraphqlTransport;
  readonly maxRootFields: number;
  readonly concurrency: number;
  readonly waitBudgetMs: number;
}

/** Each wait for a window is longer by a random part of this, so that many clients do not come back at once. */
const JITTER_MS = 250;

export function createLookupBatcher(options: LookupBatcherOptions): LookupBatcher {
  const { transport, concurrency, waitBudgetMs } = options;
  const limits = createKeyLimits();
  const retries = createRetryBudget(RETRY_SHARE, RETRY_RESERVE);
  /** What is not under way, the first to be asked first. */
  let queue = new Set<Lookup>();
  /** What has been asked for in this turn. */
  const collected = new Map<Int64, Lookup>();
  let operations = 0;
  let lookupsUnderWay = 0;
  let largest = options.maxRootFields;
  /** Whether the last answer gives no reason to send one operation first, to see how it fares. */
  let isTrusted = false;
  /** By `performance.now()`. */
  let pausedUntil = 0;
  let troublesInARow = 0;
  let timer: NodeJS.Timeout | undefined;

  return {
    ask(id, settle) {
      if (collected.size === 0) setImmediate(sendCollected);
      let lookup = collected.get(id);
      if (!lookup) {
        lookup = new Lookup(id, performance.now() + waitBudgetMs);
        collected.set(id, lookup);
        enqueue([lookup]);
      }
      return lookup.join(settle);
    },
  };

  function sendCollected(): void {
    collected.clear();
    pump();
  }

  function enqueue(lookups: readonly Lookup[]): void {
    for (const lookup of lookups) {
      queue.add(lookup);
      lookup.onDeserted = () => void queue.delete(lookup);
    }
  }

  /** Sends what may be sent now, and sees to it that the rest is looked at again. */
  function pump(): void {
    clearTimeout(timer);
    while (queue.size > 0 && operations < (isTrusted ? concurrency : 1)) {
      const now = performance.now();
      if (now < pausedUntil) return waitUntil(pausedUntil);
      const size = Math.min(queue.size, largest, limits.largestCost);
      const room = limits.room(lookupsUnderWay);
      // Answers under way may show more room, and a full operation saves a round trip.
      if (room < size && operations > 0) return;
      if (room < 1) return waitUntil(now + (limits.opensAt() - Date.now()) + Math.random() * JITTER_MS);
      void send(take(Math.min(size, room)));
    }
  }

  /** Comes back later; what has not the time to wait fails at once. */
  function waitUntil(time: number): void {
    const now = performance.now();
    const retryAfter = Math.max(1, Math.ceil((time - now) / 1_000));
    const message = `The limits of the key leave no room for ${retryAfter} s, which is beyond the wait budget of ${waitBudgetMs} ms.`;
    for (const lookup of [...queue].filter(({ deadline }) => deadline < time)) {
      queue.delete(lookup);
      lookup.settle({ failure: lookup.failure ?? { code: 'RATE_LIMITED', message, retryAfter } });
    }
    if (queue.size > 0) timer = setTimeout(pump, time - now);
  }

  function take(count: number): readonly Lookup[] {
    const taken: Lookup[] = [];
    for (const lookup of queue) {
      if (taken.length === count) break;
      taken.push(lookup);
      queue.delete(lookup);
    }
    return taken;
  }

  async function send(lookups: readonly Lookup[]): Promise<void> {
    const controller = new AbortController();
    for (const lookup of lookups) {
      lookup.onDeserted = () => {
        if (!lookups.some(({ isWanted }) => isWanted)) controller.abort();
      };
    }
    operations += 1;
    lookupsUnderWay += lookups.length;
    const answer = await ask(lookups, controller.signal);
    operations -= 1;
    lookupsUnderWay -= lookups.length;
    if (answer) react(lookups, answer);
    pump();
  }

  /** Asks the server; undefined when nobody waits for the answer any more. */
  async function ask(lookups: readonly Lookup[], signal: AbortSignal): Promise<LookupAnswer | undefined> {
    try {
      retries.deposit();
      const answer = await transport.post(toLookupBody(lookups.map(({ id }) => id)), signal);
      limits.learn(answer.header);
      return readLookupAnswer(answer, lookups.length);
    } catch (error) {
      if (signal.aborted) return undefined;
      return { kind: 'refused', status: 0, failure: toFailure(error) };
    }
  }

  function react(lookups: readonly Lookup[], answer: LookupAnswer): void {
    if (answer.kind === 'answered') return settle(lookups, answer.results);
    const { failure, status } = answer;
    if (isTooLarge(failure, status) && lookups.length > 1) {
      if (limits.largestCost >= lookups.length) largest = Math.min(largest, Math.ceil(lookups.length / 2));
      requeue(lookups);
      return;
    }
    // What waits would get the same answer.
    const all = failure.code === 'UNAUTHENTICATED' ? [...lookups, ...queue] : lookups;
    if (all !== lookups) queue.clear();
    settle(
      all,
      all.map(() => ({ failure })),
    );
    isTrusted = false;
  }

  /** Settles what is final, and puts back what may be had later. */
  function settle(lookups: readonly Lookup[], results: readonly LookupResult[]): void {
    const failures: Failure[] = [];
    const again: Lookup[] = [];
    let hasRetry: boolean | undefined;
    lookups.forEach((lookup, index) => {
      const result = results[index] as LookupResult;
      const repeat = 'failure' in result ? toRepeat(result.failure.code) : 'no';
      const isRepeated =
        repeat === 'after-wait' ||
        (repeat === 'with-backoff' && lookup.repeats < MAX_REPEATS && (hasRetry ??= retries.withdraw()));
      if (!isRepeated || !('failure' in result)) return lookup.settle(result);
      if (repeat === 'with-backoff') lookup.repeats += 1;
      lookup.failure = result.failure;
      failures.push(result.failure);
      again.push(lookup);
    });
    isTrusted = again.length === 0;
    troublesInARow = isTrusted ? 0 : troublesInARow + 1;
    if (!isTrusted) pause(failures);
    requeue(again);
  }

  function pause(failures: readonly Failure[]): void {
    const seconds = failures.flatMap(({ retryAfter }) => retryAfter ?? []);
    const growing = growingPauseMs(troublesInARow);
    const waitMs =
      seconds.length === 0
        ? growing
        : // A server that says 0 again and again is not asked in a circle.
          Math.max(growing, Math.max(...seconds) * 1_000 + Math.random() * JITTER_MS);
    pausedUntil = Math.max(pausedUntil, performance.now() + waitMs);
  }

  function requeue(lookups: readonly Lookup[]): void {
    const later = queue;
    queue = new Set();
    enqueue(lookups.filter(({ isWanted }) => isWanted));
    enqueue([...later]);
  }
}

/** Tells a refusal of an operation that a smaller one may not get: by its cost, its root fields or its body's size. */
function isTooLarge({ code }: Failure, status: number): boolean {
  return code === 'OPERATION_TOO_LARGE' || (code === 'BAD_REQUEST' && (status === 400 || status === 413));
}

function toFailure(error: unknown): Failure {
  if (error instanceof TransportFailure) return { code: error.kind, message: error.message, cause: error };
  return { code: 'UNRECOGNIZED', message: 'The answer cannot be read.', cause: error };
}
