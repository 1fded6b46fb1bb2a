import type { Pet } from '../pets/pet.js';
import { CallCancelled, type Call } from '../pets/pet-source.js';
import { timedOut } from './wire.js';

/** What was read from an answer, or the error for the client. */
export type Result = Pet | readonly Pet[] | Error;

interface SharedRequest {
  readonly result: Result | undefined;
  leave(batch: Batch, reason: 'timeout' | 'cancelled', error: Error): void;
}

/** The requests of one call, which ends at its time limit, or when its client disconnects. */
export class Batch {
  readonly endsAt: number;
  /** One result for each request, in order. */
  readonly results: Promise<readonly Result[]>;
  readonly #requests: SharedRequest[] = [];
  #open = 0;
  #resolve: ((results: readonly Result[]) => void) | undefined;
  /** The result of requests that were left to other calls. */
  #error: Error | undefined;
  readonly #timer: NodeJS.Timeout;
  readonly #cancel = (): void => this.#leave('cancelled', new CallCancelled());

  constructor(
    readonly call: Call,
    timeoutMs: number,
  ) {
    this.results = new Promise((resolve) => (this.#resolve = resolve));
    this.endsAt = call.startedAt + timeoutMs;
    this.#timer = setTimeout(() => this.#leave('timeout', timedOut()), Math.ceil(this.endsAt - performance.now()));
    call.onCancel(this.#cancel);
  }

  add(request: SharedRequest): void {
    this.#requests.push(request);
    this.#open += 1;
  }

  /** One of the requests has ended, or is left to other calls. */
  settle(): void {
    this.#open -= 1;
    if (this.#open > 0) return;
    clearTimeout(this.#timer);
    this.call.offCancel(this.#cancel);
    this.#resolve?.(this.#requests.map(({ result }) => (result ?? this.#error) as Result));
  }

  #leave(reason: 'timeout' | 'cancelled', error: Error): void {
    this.#error = error;
    for (const request of this.#requests) request.leave(this, reason, error);
  }
}
