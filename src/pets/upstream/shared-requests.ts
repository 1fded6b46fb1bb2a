import type { Call } from '../pet-source.js';
import type { UpstreamAnswer } from './upstream-client.js';
import { fromFailure, timedOut } from './upstream-errors.js';

/** How a request has ended. Failures are values here: hundreds of requests under way would otherwise be as many promises. */
export type Outcome = UpstreamAnswer | Error;

/** A request that may serve several calls. */
export interface SharedRequest {
  /** True once it may have reached the store: whoever comes later may know of something newer, and must not join. */
  readonly hasLeft: boolean;
  /** Why the attempts so far have failed, if they have. */
  readonly lastFailure: Error | undefined;
  /** Another call waits for it too. */
  join(call: Call): void;
  /** Nobody waits any more. */
  cancel(reason: Error): void;
}

/** What a request reports to. */
export interface Listener {
  /** Called once, when the request has ended. */
  end(outcome: Outcome): void;
}

/** Joins equal requests that have not left yet. Each caller waits with its own patience and may go away on its own. */
export interface SharedRequests<Question> {
  /**
   * @param id - equal for requests that are the same: same key, same path; undefined for one that is never shared
   * @returns the answer, or the error in the program's own terms; it never rejects
   */
  ask(id: string | undefined, patience: Patience, question: Question): Promise<Outcome>;
}

/** @param start - starts the request of a question for the call that asks first */
export function createSharedRequests<Question>(
  start: (question: Question, call: Call, listener: Listener) => SharedRequest,
): SharedRequests<Question> {
  const entries = new Map<string, Entry>();

  return {
    ask(id, patience, question) {
      const over = patience.whyOver();
      if (over) return Promise.resolve(over);
      let entry = id === undefined ? undefined : entries.get(id);
      if (!entry?.mayBeJoined) {
        entry = new Entry(id, entries);
        entry.request = start(question, patience.call, entry);
      } else entry.request.join(patience.call);
      const joined = entry;
      return new Promise((resolve) => {
        patience.enter(new Waiter(joined, patience, resolve));
      });
    },
  };
}

/** A request and who waits for it. */
class Entry implements Listener {
  request!: SharedRequest;
  waiters: Waiter[] = [];

  constructor(
    private readonly id: string | undefined,
    private readonly entries: Map<string, Entry>,
  ) {
    if (id !== undefined) entries.set(id, this);
  }

  get mayBeJoined(): boolean {
    return !this.request.hasLeft && this.waiters.length > 0;
  }

  end(outcome: Outcome): void {
    if (this.id !== undefined && this.entries.get(this.id) === this) this.entries.delete(this.id);
    const told = outcome instanceof Error ? fromFailure(outcome) : outcome;
    for (const waiter of this.waiters) waiter.settle(told);
  }
}

/** One call's wait for one request. */
class Waiter {
  constructor(
    private readonly entry: Entry,
    private readonly patience: Patience,
    private readonly resolve: (outcome: Outcome) => void,
  ) {
    entry.waiters.push(this);
  }

  settle(outcome: Outcome): void {
    this.patience.leave(this);
    this.resolve(outcome);
  }

  /** Ends the waiting: for the reason given, or because the time is over. */
  giveUp(reason: Error | undefined): void {
    const { entry } = this;
    const why = reason ?? entry.request.lastFailure ?? timedOut();
    entry.waiters = entry.waiters.filter((waiter) => waiter !== this);
    this.resolve(fromFailure(why));
    if (entry.waiters.length === 0) entry.request.cancel(why);
  }
}

/** How long everything that one call asks may take: until its time is over, or its client goes away. One timer for all of it. */
export class Patience {
  readonly #waiters = new Set<Waiter>();
  #timer: NodeJS.Timeout | undefined;

  /** @param timeoutMs - time for the call, from its start */
  constructor(
    readonly call: Call,
    private readonly timeoutMs: number,
  ) {}

  /** Why nothing should be asked any more; undefined while there is time. */
  whyOver(): Error | undefined {
    return this.#whyCancelled() ?? (this.#left() <= 0 ? timedOut() : undefined);
  }

  enter(waiter: Waiter): void {
    if (this.#waiters.size === 0) {
      this.#timer = setTimeout(this.#end, Math.ceil(this.#left()));
      this.call.signal.addEventListener('abort', this.#end, { once: true });
    }
    this.#waiters.add(waiter);
  }

  leave(waiter: Waiter): void {
    this.#waiters.delete(waiter);
    if (this.#waiters.size === 0) this.#rest();
  }

  #left(): number {
    return this.call.startedAt + this.timeoutMs - performance.now();
  }

  #whyCancelled(): Error | undefined {
    return this.call.isCancelled ? (this.call.signal.reason as Error) : undefined;
  }

  #rest(): void {
    clearTimeout(this.#timer);
    this.call.signal.removeEventListener('abort', this.#end);
  }

  readonly #end = (): void => {
    this.#rest();
    const reason = this.#whyCancelled();
    for (const waiter of this.#waiters) waiter.giveUp(reason);
    this.#waiters.clear();
  };
}
