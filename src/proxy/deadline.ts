import { CallCancelled, type Call } from '../pets/pet-source.js';
import { timedOut } from './upstream-errors.js';

/** When a call stops waiting for its requests: at its time limit, or when its client disconnects. */
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

  /** Why the call stops waiting; undefined while there is time. */
  findReason(): Error | undefined {
    if (this.call.isCancelled) return new CallCancelled();
    return this.leaves(0) ? undefined : timedOut();
  }

  /** Whether at least this much time is left. */
  leaves(milliseconds: number): boolean {
    return performance.now() + milliseconds < this.#endsAt;
  }

  /** Removes the timer and the listener. Call it when the call no longer waits. */
  close(): void {
    clearTimeout(this.#timer);
    this.call.offCancel(this.#pass);
  }
}
