import type { Call } from '../pet-source.js';
import type { UpstreamAnswer } from './upstream-client.js';
import { timedOut } from './upstream-errors.js';

/** A request that may serve several calls. */
export interface SharedRequest {
  readonly answer: Promise<UpstreamAnswer>;
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
   * @param start - starts the request
   */
  ask(id: string | undefined, patience: Patience, start: () => SharedRequest): Promise<UpstreamAnswer>;
}

interface Entry {
  readonly request: SharedRequest;
  waiting: number;
}

export function createSharedRequests(): SharedRequests {
  const entries = new Map<string, Entry>();

  return {
    ask(id, patience, start) {
      const over = patience.whyOver();
      if (over) return Promise.reject(over);
      return wait(join(id, start), patience);
    },
  };

  function join(id: string | undefined, start: () => SharedRequest): Entry {
    const known = id === undefined ? undefined : entries.get(id);
    if (known && !known.request.hasLeft && known.waiting > 0) return known;
    const entry: Entry = { request: start(), waiting: 0 };
    if (id !== undefined) {
      entries.set(id, entry);
      const forget = (): void => {
        if (entries.get(id) === entry) entries.delete(id);
      };
      entry.request.answer.then(forget, forget);
    }
    return entry;
  }
}

function wait(entry: Entry, patience: Patience): Promise<UpstreamAnswer> {
  entry.waiting += 1;
  return new Promise((resolve, reject) => {
    const waiter = {
      leave(reason: Error | undefined): void {
        const why = reason ?? entry.request.lastFailure ?? timedOut();
        reject(why);
        entry.waiting -= 1;
        if (entry.waiting === 0) entry.request.cancel(why);
      },
    };
    patience.enter(waiter);
    entry.request.answer.then(
      (answer) => {
        patience.leave(waiter);
        resolve(answer);
      },
      (error: unknown) => {
        patience.leave(waiter);
        reject(error);
      },
    );
  });
}

/** Somebody who waits for an answer. */
interface Waiter {
  /** Ends the waiting: for the reason given, or because the time is over. */
  leave(reason: Error | undefined): void;
}

/** How long everything that one call asks may take: until its time is over, or its client goes away. One timer for all of it. */
export class Patience {
  readonly #waiters = new Set<Waiter>();
  readonly #timeoutMs: number;
  #timer: NodeJS.Timeout | undefined;

  /** @param timeoutMs - time for the call, from its start */
  constructor(
    private readonly call: Call,
    timeoutMs: number,
  ) {
    this.#timeoutMs = timeoutMs;
  }

  /** Why nothing should be asked any more; undefined while there is time. */
  whyOver(): Error | undefined {
    if (this.call.isCancelled) return this.call.signal.reason as Error;
    return this.#left() <= 0 ? timedOut() : undefined;
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
    return this.call.startedAt + this.#timeoutMs - performance.now();
  }

  #rest(): void {
    clearTimeout(this.#timer);
    this.call.signal.removeEventListener('abort', this.#end);
  }

  readonly #end = (): void => {
    this.#rest();
    const reason = this.call.isCancelled ? (this.call.signal.reason as Error) : undefined;
    for (const waiter of this.#waiters) waiter.leave(reason);
    this.#waiters.clear();
  };
}
