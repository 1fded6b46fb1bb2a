import type { Dispatcher } from 'undici';
import type { UpstreamKey } from '../access/session.js';
import type { StoreError } from '../errors.js';
import type { Pet } from '../pets/pet.js';
import { CallCancelled, type Call } from '../pets/pet-source.js';
import type { Breaker } from './breaker.js';
import { notUnderstood, readBody, timedOut, unavailable, type UpstreamAnswer } from './wire.js';

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

/** No connection, not complete HTTP, the response to another request, or nobody who still waits. */
export type RequestFailure = 'unreachable' | 'broken' | 'mismatched' | 'timeout' | 'cancelled';

type Headers = Readonly<Record<string, string | string[] | undefined>>;

/** What the requests to an upstream share. */
export interface Shared {
  readonly breaker: Breaker;
  readonly queue: Record<'add' | 'remove' | 'sent' | 'release', (request: UpstreamRequest) => void>;
  /** Gives a request to undici, with an id of its own. */
  readonly dispatch: (request: UpstreamRequest) => void;
  /** Whether a response with this `X-Request-Id` may belong to the request. */
  readonly matches: (request: UpstreamRequest, returned: string | undefined) => boolean;
  retriesLeft: number;
  /** Called with the status of each answer, or why there is none, and the time since the request was queued. */
  readonly observe?: ((method: string, outcome: number | RequestFailure, seconds: number) => void) | undefined;
}

/** Each request earns this part of a retry. */
const RETRY_SHARE = 0.15;
/** The most retries that can be saved up. */
export const MAX_RETRIES = 5;
const FIRST_BACKOFF_MS = 50;
const LONGEST_BACKOFF_MS = 1_000;
/** Each chunk of a response costs about a microsecond, and a hundred bytes while it is kept, however small it is. */
const MAX_CHUNKS = 65_536;
const MAX_CHUNKS_KEPT = 1_024;
/** undici's names of errors in a response. */
const NOT_HTTP = new Set(['HTTPParserError', 'HeadersOverflowError', 'ResponseContentLengthMismatchError']);

/** The requests of one call, which ends at its time limit, or when its client disconnects. */
export class Batch {
  readonly requests: UpstreamRequest[] = [];
  readonly endsAt: number;
  /** One result for each request, in order. */
  readonly results: Promise<readonly Result[]>;
  #resolve: ((results: readonly Result[]) => void) | undefined;
  /** The result of requests that were left to other calls. */
  #error: Error | undefined;
  readonly #timer: NodeJS.Timeout;
  readonly #cancel = (): void => this.#leave('cancelled', new CallCancelled());

  constructor(
    private open: number,
    readonly call: Call,
    timeoutMs: number,
  ) {
    this.results = new Promise((resolve) => (this.#resolve = resolve));
    this.endsAt = call.startedAt + timeoutMs;
    this.#timer = setTimeout(() => this.#leave('timeout', timedOut()), Math.ceil(this.endsAt - performance.now()));
    call.onCancel(this.#cancel);
  }

  /** One of the requests has ended, or is left to other calls. */
  settle(): void {
    this.call.key?.finish();
    this.open -= 1;
    if (this.open > 0) return;
    clearTimeout(this.#timer);
    this.call.offCancel(this.#cancel);
    this.#resolve?.(this.requests.map(({ result }) => (result ?? this.#error) as Result));
  }

  #leave(failure: RequestFailure, error: Error): void {
    this.#error = error;
    for (const request of this.requests) request.leave(this, failure, error);
  }
}

/** A request to the upstream, for which one or more calls wait. It is sent once, or again after a failure. */
export class UpstreamRequest implements Dispatcher.DispatchHandler, UpstreamAnswer {
  /** Different for each attempt. */
  id = '';
  retries = 0;
  /** Equal GETs find this one by its path before it is sent: later calls must see newer data. */
  queueKey: string | this = this;
  result: Result | undefined;
  /** By `performance.now()`; 0 until this attempt was sent. */
  sentAt = 0;
  status = 0;
  body: string | undefined;
  /** Whether this attempt was started, and has not ended. */
  #isOpen = false;
  #waiting: [Batch, ...Batch[]];
  #queuedAt = 0;
  #pause: NodeJS.Timeout | undefined;
  #controller: Dispatcher.DispatchController | undefined;
  #headers: Headers = {};
  #chunks: Buffer[] = [];
  #chunkCount = 0;

  constructor(
    readonly path: string,
    readonly template: RequestTemplate,
    private readonly shared: Shared,
    first: Batch,
  ) {
    this.#waiting = [first];
    shared.retriesLeft = Math.min(MAX_RETRIES, shared.retriesLeft + RETRY_SHARE);
  }

  /** That of a call that still waits, because the first may have left. */
  get key(): UpstreamKey | undefined {
    return this.#waiting[0].call.key;
  }

  join(batch: Batch): void {
    this.#waiting.push(batch);
  }

  leave(batch: Batch, failure: RequestFailure, error: Error): void {
    if (this.result) return;
    const [first, ...others] = this.#waiting.filter((one) => one !== batch);
    if (first) {
      this.#waiting = [first, ...others];
      batch.settle();
    } else if (this.#isOpen) {
      this.#cancel(failure, error);
    } else {
      clearTimeout(this.#pause);
      this.shared.queue.remove(this);
      this.finish(error);
    }
  }

  enqueue(): void {
    this.#queuedAt = performance.now();
    this.queueKey = this.template.method === 'GET' && this.retries === 0 ? this.path : this;
    this.shared.queue.add(this);
  }

  /** Starts an attempt. It ends with an answer or a failure, and then releases its connection. */
  start(): void {
    this.#isOpen = true;
    this.sentAt = this.status = this.#chunkCount = 0;
    this.#controller = undefined;
    this.shared.dispatch(this);
  }

  finish(result: Result): void {
    this.result = result;
    this.#forgetAnswer();
    for (const batch of this.#waiting) batch.settle();
  }

  header(name: string): string | undefined {
    const value = this.#headers[name];
    // undici leaves the white space after a value, which is not part of it.
    return (Array.isArray(value) ? value.join(', ') : value)?.trim();
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.shared.queue.sent(this);
    const refusal = this.#isOpen ? this.key?.findRefusal() : undefined;
    if (refusal) this.finish(refusal);
    if (!this.#isOpen) return controller.abort(new Error('nobody waits for it'));
    this.#controller = controller;
    this.sentAt = performance.now();
  }

  onResponseStart(_: unknown, status: number, headers: Headers): void {
    const isInformational = status < 200;
    if (isInformational) return;
    this.#headers = headers;
    if (this.shared.matches(this, this.header('x-request-id'))) this.status = status;
    else this.#cancel('mismatched', notUnderstood('the answer to another request'));
  }

  onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void {
    this.#chunkCount += 1;
    if (this.#chunks.push(chunk) > MAX_CHUNKS_KEPT) this.#chunks = [Buffer.concat(this.#chunks)];
    if (this.#chunkCount > MAX_CHUNKS) controller.abort(new Error('too many chunks'));
  }

  onResponseEnd(): void {
    this.#succeed(readBody(this.#chunks, this.header('content-encoding')));
    this.shared.queue.release(this);
  }

  onResponseError(_: unknown, error: Error): void {
    const isBroken = this.status !== 0 || NOT_HTTP.has(error.name);
    // undici's error has what the upstream sent, which may contain the client's key.
    if (isBroken) this.#fail('broken', notUnderstood('incomplete or no HTTP', { cause: new Error(error.message) }));
    else this.#fail('unreachable', unavailable(error));
    this.shared.queue.release(this);
  }

  #cancel(failure: RequestFailure, error: Error): void {
    this.#fail(failure, error);
    this.#controller?.abort(error);
  }

  #succeed(body: string | undefined): void {
    if (!this.#isOpen) return;
    const { status, shared, template } = this;
    this.body = body;
    const result = template.read(this, this.path);
    shared.breaker.succeeded();
    this.key?.learn(this, this.sentAt, isRefusal(status) ? (result as StoreError) : undefined);
    this.#observe(status);
    const mayRepeat = template.method === 'GET' && status >= 502 && status <= 504;
    if (!mayRepeat || !this.#retryLater((result as StoreError).retryAfter)) this.finish(result);
  }

  #fail(failure: RequestFailure, error: Error): void {
    if (!this.#isOpen) return;
    // A refusal counts even if its body is incomplete.
    if (isRefusal(this.status)) return this.#succeed(undefined);
    const { breaker } = this.shared;
    if (failure === 'unreachable' || failure === 'broken') breaker.failed();
    if (failure === 'timeout') breaker.failed(this.key?.id ?? '');
    this.#observe(failure);
    const mayRepeat = failure === 'unreachable' || failure === 'mismatched';
    // A POST is sent again only if the upstream certainly never received it.
    const isSafe = this.template.method === 'GET' || this.sentAt === 0;
    if (!mayRepeat || !isSafe || !this.#retryLater()) this.finish(error);
  }

  #observe(outcome: number | RequestFailure): void {
    this.shared.observe?.(this.template.method, outcome, (performance.now() - this.#queuedAt) / 1_000);
  }

  /** Ends an attempt. The batch keeps this request until it ends itself, but not the texts of all answers. */
  #forgetAnswer(): void {
    this.#isOpen = false;
    this.body = undefined;
    this.#headers = {};
    this.#chunks = [];
  }

  /** Sends the request again after a pause, if the retry budget and the time allow it. */
  #retryLater(retryAfter = 0): boolean {
    const { shared } = this;
    if (shared.breaker.isOpen || shared.retriesLeft < 1) return false;
    // Exponential backoff with full jitter, but not before the upstream wants it.
    const backoffMs = Math.random() * Math.min(LONGEST_BACKOFF_MS, FIRST_BACKOFF_MS * 2 ** this.retries);
    const pauseMs = Math.max(backoffMs, retryAfter * 1_000);
    if (performance.now() + pauseMs >= this.#waiting[0].endsAt) return false;
    shared.retriesLeft -= 1;
    this.retries += 1;
    this.#forgetAnswer();
    this.#pause = setTimeout(() => this.enqueue(), pauseMs);
    return true;
  }
}

/** The upstream refuses the key or its rate. */
function isRefusal(status: number): boolean {
  return status === 401 || status === 429;
}
