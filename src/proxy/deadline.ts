import { CallCancelled, type Call } from '../pets/pet-source.js';
import { timedOut } from './upstream-errors.js';

/** When to stop waiting for everything that one call asks: at its time limit, or as soon as its client disconnects. */
export class Deadline {
  /** Resolves when the deadline passes. */
  readonly passed: Promise<void>;
  readonly #endsAt: number;
  readonly #timer: NodeJS.Timeout | undefined;
  #pass!: () => void;

  /** @param timeoutMs - time for the call, counted from its start */
  constructor(
    readonly call: Call,
    timeoutMs: number,
  ) {
    this.passed = new Promise((resolve) => (this.#pass = resolve));
    this.#endsAt = call.startedAt + timeoutMs;
    this.#timer = setTimeout(this.#pass, Math.ceil(this.#endsAt - performance.now()));
    call.onCancel(this.#pass);
  }

  /** Why waiting makes no sense any more; undefined while there is time. */
  findReason(): Error | undefined {
    if (this.call.isCancelled) return new CallCancelled();
    return this.leaves(0) ? undefined : timedOut();
  }

  /** Whether something that takes this long would end in time. */
  leaves(milliseconds: number): boolean {
    return performance.now() + milliseconds < this.#endsAt;
  }

  /** Stops the clock. Call it when nobody waits any more. */
  close(): void {
    clearTimeout(this.#timer);
    this.call.offCancel(this.#pass);
  }
}
