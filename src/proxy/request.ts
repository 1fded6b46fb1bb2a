import type { Dispatcher } from 'undici';
import { monotonicNow } from '../clock.js';
import { StoreError } from '../errors.js';
import type { Pet } from '../pets/pet.js';
import { CallCancelled, type Call } from '../pets/pet-source.js';
import type { Breaker } from './breaker.js';
import { parseRetryAfter } from './limits.js';
import type { RequestIds } from './request-ids.js';
import { MAX_BODY_BYTES, notUnderstood, readBody, timedOut, unavailable, type UpstreamAnswer } from './wire.js';

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

/** The result of a request: the animals of its answer, or the error for the client. */
export type Result = readonly Pet[] | Error;

/**
 * Why an attempt has no response: no connection, not complete HTTP, the response to another request, a key that may not
 * be used any more, or nobody who waits any more.
 */
export type Failure = 'unreachable' | 'broken' | 'mismatched' | 'refused' | 'timeout' | 'cancelled';

/** What all requests share. */
export interface Shared {
  readonly breaker: Breaker;
  readonly ids: RequestIds;
  /** The last GET of each key and path that has not ended. */
  readonly gets: Map<string, PendingRequest>;
  retriesLeft: number;
  /** Dispatches a request when it is its key's turn. */
  enqueue(request: PendingRequest): void;
  /** A request waits no longer. */
  dequeue(request: PendingRequest): void;
  /** A connection can be used again. */
  release(request: PendingRequest): void;
  /** Called with the status of each response, or why there is none, and the time since it was enqueued. */
  readonly observe?: ((method: string, outcome: number | Failure, seconds: number) => void) | undefined;
}

/** Each chunk of a response costs about a microsecond, however small it is. */
const MAX_CHUNKS = 8_192;
/** These answers count even if their bodies are incomplete. */
const REFUSALS = new Set([401, 429]);
/** undici's names of errors in a response. */
const NOT_HTTP = new Set(['HTTPParserError', 'HeadersOverflowError', 'ResponseContentLengthMismatchError']);
const RETRIED_STATUSES = new Set([502, 503, 504]);
/** Each request earns this part of a retry. */
const RETRY_SHARE = 0.15;
/** The most retries that can be saved up. */
export const MAX_RETRIES = 5;
const FIRST_BACKOFF_MS = 50;
const LONGEST_BACKOFF_MS = 1_000;

type Headers = Readonly<Record<string, string | string[] | undefined>>;

/** The requests of one call, which ends at its time limit, or when its client disconnects. */
export class Batch {
  /** One result for each request, in order. */
  readonly results: Result[] = [];
  readonly requests: PendingRequest[] = [];
  readonly endsAt: number;
  readonly settled: Promise<void>;
  #resolve: (() => void) | undefined;
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
    this.results[index] = result;
    this.call.key?.finish();
    this.open -= 1;
    if (this.open > 0) return;
    clearTimeout(this.#timer);
    this.call.offCancel(this.#cancel);
    this.#resolve?.();
  }

  #end(error: Error): void {
    for (const [index, request] of this.requests.entries()) if (!this.results[index]) request.leave(this, index, error);
  }
}

/** A request to the upstream with all its attempts, for which one or more calls wait. */
export class PendingRequest implements Dispatcher.DispatchHandler {
  /** The calls, each with the index of its result. */
  waiting: { readonly batch: Batch; readonly index: number }[] = [];
  /** When it was last sent, by `performance.now()`. */
  sentAt: number | undefined;
  #retries = 0;
  #pause: NodeJS.Timeout | undefined;

  // The state of the last attempt:
  requestId = '';
  #isOpen = false;
  #enqueuedAt = 0;
  #controller: Dispatcher.DispatchController | undefined;
  #status = 0;
  #headers: Headers = {};
  #chunks: Buffer[] = [];
  #size = 0;

  /** @param endsAt - when the first call ends: the others may wait longer, but get no further attempts */
  constructor(
    private readonly id: string,
    readonly path: string,
    readonly template: RequestTemplate,
    private readonly endsAt: number,
    private readonly shared: Shared,
  ) {
    shared.retriesLeft = Math.min(MAX_RETRIES, shared.retriesLeft + RETRY_SHARE);
    if (template.method === 'GET') shared.gets.set(id, this);
  }

  /** One of those that still wait, because the first may have left. */
  get call(): Call {
    return this.waiting[0]?.batch.call ?? this.template.call;
  }

  send(): void {
    this.requestId = this.shared.ids.create(this.call.requestId);
    this.#isOpen = true;
    this.#enqueuedAt = performance.now();
    this.#controller = undefined;
    this.#status = this.#size = 0;
    this.#headers = {};
    this.#chunks = [];
    this.shared.enqueue(this);
  }

  /** Called at its turn. Returns whether it may be sent. */
  start(): boolean {
    const { key } = this.call;
    const refusal = this.#retries === 0 ? key?.start() : key?.findRefusal();
    if (refusal) this.#fail('refused', refusal);
    return !refusal;
  }

  /** A call waits no longer. */
  leave(batch: Batch, index: number, reason: Error): void {
    if (this.waiting.length === 1) return this.#cancel(reason);
    this.waiting = this.waiting.filter((one) => one.batch !== batch || one.index !== index);
    batch.settle(index, reason);
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    const refusal = this.call.key?.findRefusal();
    if (refusal) this.#fail('refused', refusal);
    if (!this.#isOpen) return controller.abort(new Error('cancelled'));
    this.#controller = controller;
    this.sentAt = performance.now();
  }

  onResponseStart(controller: Dispatcher.DispatchController, status: number, headers: Headers): void {
    const isInformational = status < 200;
    if (isInformational) return;
    if (this.shared.ids.matches(this.requestId, readHeader(headers, 'x-request-id'), status)) {
      this.#status = status;
      this.#headers = headers;
    } else {
      this.#fail('mismatched', notUnderstood('the answer to another request'));
      controller.abort(new Error('the response is not that of the request'));
    }
  }

  onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void {
    this.#size += chunk.length;
    if (this.#chunks.push(chunk) <= MAX_CHUNKS && this.#size <= MAX_BODY_BYTES) return;
    this.#answer(undefined);
    controller.abort(new Error('the response is too large'));
  }

  onResponseEnd(): void {
    this.#answer(readBody(this.#chunks, readHeader(this.#headers, 'content-encoding')));
    this.shared.release(this);
  }

  onResponseError(controller: Dispatcher.DispatchController | null, error: Error): void {
    const isOfLastAttempt = !controller || controller === this.#controller;
    const isBroken = this.#status !== 0 || NOT_HTTP.has(error.name);
    // undici's error has what the upstream sent, which may contain the client's key.
    if (isBroken && isOfLastAttempt)
      this.#fail('broken', notUnderstood('incomplete or no HTTP', new Error(error.message)));
    else if (isOfLastAttempt) this.#fail('unreachable', unavailable(error));
    this.shared.release(this);
  }

  #cancel(reason: Error): void {
    clearTimeout(this.#pause);
    if (!this.#isOpen) return this.#finish(reason);
    this.#fail(reason instanceof CallCancelled ? 'cancelled' : 'timeout', reason);
    this.#controller?.abort(reason);
  }

  #answer(body: string | undefined): void {
    if (!this.#isOpen) return;
    const status = this.#status;
    const headers = this.#headers;
    const answer = { status, body, header: (name: string) => readHeader(headers, name) };
    const result = this.template.read(answer, this.path);
    this.shared.breaker.succeeded();
    this.call.key?.learn(answer, this.sentAt ?? 0, isRefusal(result) ? result : undefined);
    const isWorthRetrying = this.template.method === 'GET' && RETRIED_STATUSES.has(status);
    const retryAfter = isWorthRetrying ? parseRetryAfter(answer, monotonicNow()) : undefined;
    this.#end(status, result, isWorthRetrying, retryAfter);
  }

  #fail(failure: Failure, error: Error): void {
    if (!this.#isOpen) return;
    if (REFUSALS.has(this.#status)) return this.#answer(undefined);
    const { breaker } = this.shared;
    if (failure === 'unreachable' || failure === 'broken') breaker.failed();
    if (failure === 'timeout') breaker.failed(this.call.key?.id ?? '');
    // A POST is sent again only if the upstream certainly never received it.
    const mayRepeat = this.template.method === 'GET' || !this.#controller;
    this.#end(failure, error, mayRepeat && (failure === 'unreachable' || failure === 'mismatched'));
  }

  /** An attempt has ended. */
  #end(outcome: number | Failure, result: Result, isWorthRetrying: boolean, retryAfter?: number): void {
    const { observe } = this.shared;
    this.#isOpen = false;
    this.shared.dequeue(this);
    if (this.#controller || outcome === 'unreachable' || outcome === 'timeout')
      observe?.(this.template.method, outcome, (performance.now() - this.#enqueuedAt) / 1_000);
    if (!isWorthRetrying || !this.#retryLater(retryAfter)) this.#finish(result);
  }

  /** Sends the request again after a pause, if the retry budget and the time allow it. */
  #retryLater(retryAfter = 0): boolean {
    const { shared } = this;
    if (shared.breaker.isOpen || shared.retriesLeft < 1) return false;
    // Exponential backoff with full jitter, but not before the upstream wants it.
    const backoffMs = Math.random() * Math.min(LONGEST_BACKOFF_MS, FIRST_BACKOFF_MS * 2 ** this.#retries);
    const pauseMs = Math.max(backoffMs, retryAfter * 1_000);
    if (performance.now() + pauseMs >= this.endsAt) return false;
    shared.retriesLeft -= 1;
    this.#retries += 1;
    this.#pause = setTimeout(() => this.send(), pauseMs);
    return true;
  }

  #finish(result: Result): void {
    const { gets } = this.shared;
    if (gets.get(this.id) === this) gets.delete(this.id);
    for (const { batch, index } of this.waiting) batch.settle(index, result);
  }
}

/** undici leaves the white space after a value, which is not part of it. */
function readHeader(headers: Headers, name: string): string | undefined {
  const value = headers[name];
  return (Array.isArray(value) ? value.join(', ') : value)?.trim();
}

/** Whether the upstream refused the key or its rate. */
function isRefusal(result: Result): result is StoreError {
  return result instanceof StoreError && (result.status === 401 || result.status === 429);
}
