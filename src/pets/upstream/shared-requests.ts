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
  /** Nobody waits any more. */
  cancel(reason: Error): void;
}

/** Joins equal requests that have not left yet. Each caller waits with its own patience and may go away on its own. */
export interface SharedRequests {
  /**
   * @param id - equal for requests that are the same: same key, same path; undefined for one that is never shared
   * @param start - starts the request, which calls `settle` when it has ended
   * @returns the answer, or the error in the program's own terms; it never rejects
   */
  ask(
    id: string | undefined,
    patience: Patience,
    start: (settle: (outcome: Outcome) => void) => SharedRequest,
  ): Promise<Outcome>;
}

export function createSharedRequests(): SharedRequests {
  const entries = new Map<string, Entry>();

  return {
    ask(id, patience, start) {
      const over = patience.whyOver();
      if (over) return Promise.resolve(over);
      const known = id === undefined ? undefined : entries.get(id);
      const entry = known?.mayBeJoined ? known : open(id, start);
      return new Promise((resolve) => {
        patience.enter(new Waiter(entry, patience, resolve));
      });
    },
  };

  function open(id: string | undefined, start: Parameters<SharedRequests['ask']>[2]): Entry {
    const entry: Entry = new Entry((settle) =>
      start((outcome) => {
        if (id !== undefined && entries.get(id) === entry) entries.delete(id);
        settle(outcome);
      }),
    );
    if (id !== undefined) entries.set(id, entry);
    return entry;
  }
}

/** A request and who waits for it. */
class Entry {
  readonly waiters = new Set<Waiter>();
  readonly request: SharedRequest;

  constructor(start: (settle: (outcome: Outcome) => void) => SharedRequest) {
    this.request = start((outcome) => {
      const told = outcome instanceof Error ? fromFailure(outcome) : outcome;
      for (const waiter of this.waiters) waiter.settle(told);
    });
  }

  get mayBeJoined(): boolean {
    return !this.request.hasLeft && this.waiters.size > 0;
  }
}

/** One call's wait for one request. */
class Waiter {
  constructor(
    private readonly entry: Entry,
    private readonly patience: Patience,
    private readonly resolve: (outcome: Outcome) => void,
  ) {
    entry.waiters.add(this);
  }

  settle(outcome: Outcome): void {
    this.patience.leave(this);
    this.resolve(outcome);
  }

  /** Ends the waiting: for the reason given, or because the time is over. */
  giveUp(reason: Error | undefined): void {
    const { request, waiters } = this.entry;
    const why = reason ?? request.lastFailure ?? timedOut();
    waiters.delete(this);
    this.resolve(fromFailure(why));
    if (waiters.size === 0) request.cancel(why);
  }
}

/** How long everything that one call asks may take: until its time is over, or its client goes away. One timer for all of it. */
export class Patience {
  readonly #waiters = new Set<Waiter>();
  #timer: NodeJS.Timeout | undefined;

  /** @param timeoutMs - time for the call, from its start */
  constructor(
    private readonly call: Call,
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
