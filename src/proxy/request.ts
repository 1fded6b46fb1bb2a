import type { UpstreamKey } from '../access/session.js';
import { monotonicNow } from '../clock.js';
import type { StoreError } from '../errors.js';
import type { Pet } from '../pets/pet.js';
import { CallCancelled, type Call } from '../pets/pet-source.js';
import type { Breaker } from './breaker.js';
import { REFUSALS, type Exchange, type Failure } from './exchange.js';
import { parseRetryAfter } from './limits.js';
import { timedOut, type UpstreamAnswer } from './wire.js';

/** What all requests of a call have in common. */
export interface RequestTemplate {
  readonly call: Call;
  readonly method: 'GET' | 'POST';
  /** Names and values alternately; all except `X-Request-Id`. */
  readonly headers: readonly string[];
  readonly body?: string | undefined;
  /** Reads an answer as soon as it arrives, so that its text and headers can be freed. */
  readonly read: (answer: UpstreamAnswer, path: string) => Result;
}

/** The animals of an answer, or the error for the client. */
export type Result = readonly Pet[] | Error;

/** What all requests share. */
export interface Shared {
  readonly breaker: Breaker;
  readonly queue: Record<'add' | 'remove' | 'release', (request: PendingRequest) => void>;
  readonly dispatch: (request: PendingRequest) => Exchange;
  retriesLeft: number;
  /** Called with the status of each answer, or why there is none, and the time since the request was queued. */
  readonly observe?: ((method: string, outcome: number | Failure, seconds: number) => void) | undefined;
}

const RETRIED_STATUSES = new Set([502, 503, 504]);
const RETRIED_FAILURES = new Set<Failure>(['unreachable', 'mismatched']);
/** Each request earns this part of a retry. */
const RETRY_SHARE = 0.15;
/** The most retries that can be saved up. */
export const MAX_RETRIES = 5;
const FIRST_BACKOFF_MS = 50;
const LONGEST_BACKOFF_MS = 1_000;

/** The requests of one call, which ends at its time limit, or when its client disconnects. */
export class Batch {
  readonly requests: PendingRequest[] = [];
  readonly endsAt: number;
  /** One result for each request, in order. */
  readonly settled: Promise<readonly Result[]>;
  readonly #results: Result[] = [];
  #resolve: ((results: readonly Result[]) => void) | undefined;
  readonly #timer: NodeJS.Timeout;
  readonly #cancel = (): void => this.#end(new CallCancelled());

  constructor(
    private open: number,
    readonly call: Call,
    timeoutMs: number,
  ) {
    this.settled = new Promise((resolve) => (this.#resolve = resolve));
    this.endsAt = call.startedAt + timeoutMs;
    this.#timer = setTimeout(() => this.#end(timedOut()), Math.ceil(this.endsAt - performance.now()));
    call.onCancel(this.#cancel);
  }

  settle(index: number, result: Result): void {
    this.#results[index] = result;
    this.call.key?.finish();
    this.open -= 1;
    if (this.open > 0) return;
    clearTimeout(this.#timer);
    this.call.offCancel(this.#cancel);
    this.#resolve?.(this.#results);
  }

  #end(error: Error): void {
    for (const [index, request] of this.requests.entries())
      if (!this.#results[index]) request.leave(this, index, error);
  }
}

/** A call that waits for a request, with the index of its result. */
interface Waiter {
  readonly batch: Batch;
  readonly index: number;
}

/** A request to the upstream with all its attempts, for which one or more calls wait. */
export class PendingRequest {
  retries = 0;
  #waiting: [Waiter, ...Waiter[]];
  #queuedAt = 0;
  #exchange: Exchange | undefined;
  #pause: NodeJS.Timeout | undefined;

  constructor(
    readonly path: string,
    readonly template: RequestTemplate,
    private readonly shared: Shared,
    first: Waiter,
  ) {
    this.#waiting = [first];
    shared.retriesLeft = Math.min(MAX_RETRIES, shared.retriesLeft + RETRY_SHARE);
  }

  /** One of the calls that still wait, because the first may have left. */
  get call(): Call {
    return this.#waiting[0].batch.call;
  }

  get key(): UpstreamKey | undefined {
    return this.call.key;
  }

  /** Equal GETs find this one by its path before it is sent: later calls must see newer data. */
  get queueKey(): string | this {
    return this.template.method === 'GET' && this.retries === 0 ? this.path : this;
  }

  /** Whether it was handed to the pool, but still waits for the connection to open. */
  get isConnecting(): boolean {
    return this.#exchange?.isOpen === true && this.#exchange.sentAt === 0;
  }

  join(waiter: Waiter): void {
    this.#waiting.push(waiter);
  }

  leave(batch: Batch, index: number, reason: Error): void {
    const [first, ...others] = this.#waiting.filter((one) => one.batch !== batch || one.index !== index);
    if (first) {
      this.#waiting = [first, ...others];
      batch.settle(index, reason);
    } else if (this.#exchange?.isOpen) {
      this.#exchange.cancel(reason instanceof CallCancelled ? 'cancelled' : 'timeout', reason);
    } else {
      clearTimeout(this.#pause);
      this.shared.queue.remove(this);
      this.finish(reason);
    }
  }

  enqueue(): void {
    this.#queuedAt = performance.now();
    this.shared.queue.add(this);
  }

  send(): void {
    this.#exchange = this.shared.dispatch(this);
  }

  finish(result: Result): void {
    for (const { batch, index } of this.#waiting) batch.settle(index, result);
  }

  /** Whether the key may still be used, now that there is a connection. */
  mayBeSent(): boolean {
    const refusal = this.key?.findRefusal();
    if (refusal) this.finish(refusal);
    return !refusal;
  }

  succeed(answer: Exchange): void {
    const { status, sentAt } = answer;
    const result = this.template.read(answer, this.path);
    this.#forgetExchange();
    this.shared.breaker.succeeded();
    this.key?.learn(answer, sentAt, REFUSALS.has(status) ? (result as StoreError) : undefined);
    this.#observe(status);
    const mayRepeat = this.template.method === 'GET' && RETRIED_STATUSES.has(status);
    if (!mayRepeat || !this.#retryLater(parseRetryAfter(answer, monotonicNow()))) this.finish(result);
  }

  fail(failure: Failure, error: Error, wasSent: boolean): void {
    const { breaker } = this.shared;
    this.#forgetExchange();
    if (failure === 'unreachable' || failure === 'broken') breaker.failed();
    if (failure === 'timeout') breaker.failed(this.key?.id ?? '');
    this.#observe(failure);
    // A POST is sent again only if the upstream certainly never received it.
    const mayRepeat = this.template.method === 'GET' || !wasSent;
    if (!mayRepeat || !RETRIED_FAILURES.has(failure) || !this.#retryLater()) this.finish(error);
  }

  release(): void {
    this.shared.queue.release(this);
  }

  /** The batch keeps this request until it ends, which must not keep the texts of all its answers. */
  #forgetExchange(): void {
    this.#exchange = undefined;
  }

  #observe(outcome: number | Failure): void {
    this.shared.observe?.(this.template.method, outcome, (performance.now() - this.#queuedAt) / 1_000);
  }

  /** Sends the request again after a pause, if the retry budget and the time allow it. */
  #retryLater(retryAfter = 0): boolean {
    const { shared } = this;
    if (shared.breaker.isOpen || shared.retriesLeft < 1) return false;
    // Exponential backoff with full jitter, but not before the upstream wants it.
    const backoffMs = Math.random() * Math.min(LONGEST_BACKOFF_MS, FIRST_BACKOFF_MS * 2 ** this.retries);
    const pauseMs = Math.max(backoffMs, retryAfter * 1_000);
    if (performance.now() + pauseMs >= this.#waiting[0].batch.endsAt) return false;
    shared.retriesLeft -= 1;
    this.retries += 1;
    this.#pause = setTimeout(() => this.enqueue(), pauseMs);
    return true;
  }
}
