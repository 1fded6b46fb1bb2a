import { CallCancelled, type Call } from '../pet-source.js';
import type { UpstreamAnswer } from './outgoing-request.js';
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

/** Takes the outcomes of what one call asks. */
export interface Receiver {
  /**
   * Called once for each question.
   * @param outcome - the answer, or the error in the program's own terms
   * @param place - that of the question
   */
  receive(outcome: Outcome, place: number): void;
}

/** What the requests of a call have in common. Requests of one key for the same path are the same, unless they are not to be shared. */
export interface RequestTemplate {
  readonly isShared: boolean;
}

/** Joins equal requests of the same key that have not left yet. Each caller waits with its own patience and may go away on its own. */
export interface SharedRequests<Template extends RequestTemplate> {
  ask(path: string, template: Template, patience: Patience, receiver: Receiver, place: number): void;
}

/** @param start - starts the request for the call that asks first */
export function createSharedRequests<Template extends RequestTemplate>(
  start: (path: string, template: Template, call: Call, listener: Listener) => SharedRequest,
): SharedRequests<Template> {
  const entriesOfKeys = new Map<string, Entries>();

  return {
    ask(path, template, patience, receiver, place) {
      const over = patience.whyOver();
      if (over) {
        receiver.receive(over, place);
        return;
      }
      const { call } = patience;
      const entries = template.isShared ? entriesOf(call.key?.id ?? '') : undefined;
      let entry = entries?.get(path);
      if (!entry?.mayBeJoined) {
        entry = new Entry(path, entries);
        entry.request = start(path, template, call, entry);
      } else entry.request.join(call);
      patience.enter(new Waiter(entry, patience, receiver, place));
    },
  };

  /** The requests of a key that may be joined, by their path. */
  function entriesOf(keyId: string): Entries {
    let entries = entriesOfKeys.get(keyId);
    if (!entries) {
      entries = new Entries(() => entriesOfKeys.delete(keyId));
      entriesOfKeys.set(keyId, entries);
    }
    return entries;
  }
}

class Entries {
  readonly #byPath = new Map<string, Entry>();

  /** @param onEmpty - called when none is left */
  constructor(private readonly onEmpty: () => void) {}

  get(path: string): Entry | undefined {
    return this.#byPath.get(path);
  }

  add(entry: Entry): void {
    this.#byPath.set(entry.path, entry);
  }

  /** Removes an entry, unless another has taken its place. */
  remove(entry: Entry): void {
    if (this.#byPath.get(entry.path) !== entry) return;
    this.#byPath.delete(entry.path);
    if (this.#byPath.size === 0) this.onEmpty();
  }
}

/** A request and who waits for it. */
class Entry implements Listener {
  request!: SharedRequest;
  /** The one who came last, linked to those before. */
  #waiter: Waiter | undefined;

  constructor(
    readonly path: string,
    private readonly entries: Entries | undefined,
  ) {
    entries?.add(this);
  }

  get mayBeJoined(): boolean {
    return !this.request.hasLeft && this.isWaitedFor;
  }

  get isWaitedFor(): boolean {
    return this.#waiter !== undefined;
  }

  add(waiter: Waiter): void {
    waiter.next = this.#waiter;
    this.#waiter = waiter;
  }

  remove(waiter: Waiter): void {
    if (this.#waiter === waiter) this.#waiter = waiter.next;
    for (let other = this.#waiter; other; other = other.next) if (other.next === waiter) other.next = waiter.next;
  }

  end(outcome: Outcome): void {
    this.entries?.remove(this);
    const told = outcome instanceof Error ? fromFailure(outcome) : outcome;
    for (let waiter = this.#waiter; waiter; waiter = waiter.next) waiter.settle(told);
  }
}

/** One call's wait for one request. */
class Waiter {
  /** Another of the same entry. */
  next: Waiter | undefined;
  #isOver = false;

  constructor(
    private readonly entry: Entry,
    private readonly patience: Patience,
    private readonly receiver: Receiver,
    private readonly place: number,
  ) {
    entry.add(this);
  }

  settle(outcome: Outcome): void {
    this.#isOver = true;
    this.patience.leave();
    this.receiver.receive(outcome, this.place);
  }

  /** Ends the waiting: for the reason given, or because the time is over. */
  giveUp(reason: Error | undefined): void {
    if (this.#isOver) return;
    const { entry } = this;
    const why = reason ?? entry.request.lastFailure ?? timedOut();
    entry.remove(this);
    this.settle(fromFailure(why));
    if (!entry.isWaitedFor) entry.request.cancel(why);
  }
}

/** How long everything that one call asks may take: until its time is over, or its client goes away. One timer for all of it. */
export class Patience {
  /** All that have entered since nobody waited last. */
  #waiters: Waiter[] = [];
  #waiting = 0;
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
    this.#waiting += 1;
    if (this.#waiters.push(waiter) === 1) {
      this.#timer = setTimeout(this.#end, Math.ceil(this.#left()));
      this.call.onCancel(this.#end);
    }
  }

  leave(): void {
    this.#waiting -= 1;
    if (this.#waiting === 0) this.#rest();
  }

  #left(): number {
    return this.call.startedAt + this.timeoutMs - performance.now();
  }

  #whyCancelled(): Error | undefined {
    return this.call.isCancelled ? new CallCancelled() : undefined;
  }

  #rest(): void {
    this.#waiters = [];
    clearTimeout(this.#timer);
    this.call.offCancel(this.#end);
  }

  readonly #end = (): void => {
    const reason = this.#whyCancelled();
    for (const waiter of this.#waiters) waiter.giveUp(reason);
  };
}
