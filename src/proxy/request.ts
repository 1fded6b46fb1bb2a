import { errors, type Dispatcher, type Pool } from 'undici';
import type { UpstreamKey } from '../access/session.js';
import { monotonicNow } from '../clock.js';
import { StoreError } from '../errors.js';
import type { Call } from '../pets/pet-source.js';
import type { Batch, Result } from './batch.js';
import type { Breaker } from './breaker.js';
import { parseRetryAfter } from './limits.js';
import { notUnderstood, readBody, unavailable, type UpstreamAnswer } from './wire.js';

/** What all requests of a call have in common. */
export interface RequestTemplate {
  readonly call: Call;
  readonly method: 'GET' | 'POST';
  /** Names and values alternately. */
  readonly headers: readonly string[];
  readonly body?: string;
  readonly read: (answer: UpstreamAnswer, path: string) => Result;
}

/** No connection, not complete HTTP, the response to another request, or nobody who still waits. */
export type RequestFailure = 'unreachable' | 'broken' | 'mismatched' | 'timeout' | 'cancelled';

type Headers = Readonly<Record<string, string | string[] | undefined>>;

/** The requests of one key. */
export interface Lane {
  readonly keyId: string;
  /** Connections in use. */
  active: number;
  /** In order, by `UpstreamRequest.place`. */
  readonly waiting: Map<string | UpstreamRequest, QueueEntry>;
}

/** Emptied when its request leaves the queue, so that it keeps nothing in memory: see `bench/README.md`. */
interface QueueEntry {
  request: UpstreamRequest | undefined;
}

/** What the requests to an upstream share. */
export interface Upstream {
  readonly pool: Pool;
  readonly basePath: string;
  readonly breaker: Breaker;
  /** Called with the status of each answer, or why there is none. */
  readonly observe?: (method: string, outcome: number | RequestFailure, seconds: number) => void;
  /** Part of all request ids, because clients may use an id twice. */
  readonly tag: string;
  sent: number;
  /** Whether the upstream returns request ids. */
  returnsIds: boolean;
  retriesLeft: number;
  readonly enqueue: (request: UpstreamRequest) => void;
  readonly dequeue: (request: UpstreamRequest) => void;
  /** The connection of the request can be used again. */
  readonly release: (request: UpstreamRequest) => void;
}

/** Stores accept ids of up to 128 characters, and the part that is added here takes about 20. */
const MAX_CLIENT_ID = 100;
const RETRIES_PER_REQUEST = 0.15;
/** That can be saved up. */
export const MAX_RETRIES = 5;
const FIRST_BACKOFF_MS = 50;
const LONGEST_BACKOFF_MS = 1_000;
/** Each chunk of a response costs about a microsecond, and a hundred bytes while it is kept, however small it is. */
const MAX_CHUNKS = 65_536;
const MAX_CHUNKS_KEPT = 1_024;
/** undici's names of errors in a response. */
const NOT_HTTP = new Set(['HTTPParserError', 'HeadersOverflowError', 'ResponseContentLengthMismatchError']);

/** A request for which one or more calls wait. After a failure, it may be sent again. */
export class UpstreamRequest implements Dispatcher.DispatchHandler, UpstreamAnswer {
  lane: Lane | undefined;
  queuedAt = 0;
  retries = 0;
  result: Result | undefined;
  status = 0;
  body = '';
  /** Empty once there is a result: requests and batches that refer to each other would keep all earlier ones in memory. */
  #batches: Batch[] = [];
  /** Different for each attempt. */
  #id = '';
  /** 0 until this attempt was sent. */
  #sentAt = 0;
  #isOpen = false;
  #pause: NodeJS.Timeout | undefined;
  #controller: Dispatcher.DispatchController | undefined;
  #headers: Headers | undefined;
  #chunks: Buffer[] = [];
  #chunkCount = 0;

  constructor(
    readonly path: string,
    readonly template: RequestTemplate,
    private readonly upstream: Upstream,
  ) {
    upstream.retriesLeft = Math.min(MAX_RETRIES, upstream.retriesLeft + RETRIES_PER_REQUEST);
  }

  /** The key of a call that still waits: the first one may have left. */
  get key(): UpstreamKey | undefined {
    return this.#batches[0]?.call.key;
  }

  /** Its place in the queue. A retry is not shared, because a newer equal request may have that place. */
  get place(): string | this {
    return this.template.method === 'GET' && this.retries === 0 ? this.path : this;
  }

  join(batch: Batch): void {
    this.#batches.push(batch);
    batch.add(this);
  }

  leave(batch: Batch, reason: 'timeout' | 'cancelled', error: Error): void {
    if (this.result) return;
    if (this.#batches.length > 1) {
      this.#batches.splice(this.#batches.indexOf(batch), 1);
      if (this.#batches.every(({ call }) => call !== batch.call)) batch.call.key?.finish();
      batch.settle();
    } else if (this.#isOpen) {
      this.#cancel(reason, error);
    } else {
      clearTimeout(this.#pause);
      this.upstream.dequeue(this);
      this.finish(error);
    }
  }

  /** Starts an attempt, which later releases its connection. */
  send(): void {
    this.#isOpen = true;
    this.#sentAt = this.status = this.#chunkCount = 0;
    this.#controller = undefined;
    const { upstream, template } = this;
    const { method, body = null, call } = template;
    this.#id = call.requestId.slice(0, MAX_CLIENT_ID) + upstream.tag + (upstream.sent += 1).toString(36);
    const headers = template.headers.concat('x-request-id', this.#id);
    upstream.pool.dispatch({ method, path: upstream.basePath + this.path, headers, body }, this);
  }

  finish(result: Result): void {
    this.result = result;
    this.#forgetAnswer();
    const batches = this.#batches;
    this.#batches = [];
    for (const call of new Set(batches.map((batch) => batch.call))) call.key?.finish();
    for (const batch of batches) batch.settle();
  }

  header(name: string): string | undefined {
    const value = this.#headers?.[name];
    // undici leaves the white space after a value.
    return (Array.isArray(value) ? value.join(', ') : value)?.trim();
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    const refusal = this.#isOpen ? this.key?.findRefusal() : undefined;
    if (refusal) this.finish(refusal);
    if (!this.#isOpen) return controller.abort(new Error('nobody waits for it'));
    this.#controller = controller;
    this.#sentAt = monotonicNow();
  }

  onResponseStart(_: unknown, status: number, headers: Headers): void {
    if (status < 200) return;
    this.#headers = headers;
    const id = this.header('x-request-id');
    if (id === this.#id) this.upstream.returnsIds = true;
    else if (this.upstream.returnsIds && id !== undefined) {
      // They are not about this request.
      this.#headers = undefined;
      return this.#cancel('mismatched', notUnderstood('the answer to another request'));
    }
    this.status = status;
  }

  onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void {
    this.#chunkCount += 1;
    if (this.#chunks.push(chunk) > MAX_CHUNKS_KEPT) this.#chunks = [Buffer.concat(this.#chunks)];
    if (this.#chunkCount > MAX_CHUNKS) controller.abort(new errors.ResponseExceededMaxSizeError('too many chunks'));
  }

  onResponseEnd(): void {
    this.#succeed(readBody(this.#chunks, this.header('content-encoding')));
    this.upstream.release(this);
  }

  onResponseError(_: unknown, error: Error): void {
    const isBroken = this.status !== 0 || NOT_HTTP.has(error.name);
    const mayRepeat = this.status !== 0 && !(error instanceof errors.ResponseExceededMaxSizeError);
    // undici's error has what the upstream sent, which may contain the client's key.
    const details = { cause: new Error(error.message), retryAfter: mayRepeat ? 1 : undefined };
    if (isBroken) this.#fail('broken', notUnderstood('incomplete or no HTTP', details), mayRepeat);
    else this.#fail('unreachable', unavailable(error), true);
    this.upstream.release(this);
  }

  #cancel(failure: RequestFailure, error: Error): void {
    this.#fail(failure, error, failure === 'mismatched');
    this.#controller?.abort(error);
  }

  #succeed(body: string): void {
    if (!this.#isOpen) return;
    const { status, template } = this;
    this.body = body;
    const result = template.read(this, this.path);
    this.upstream.breaker.answered();
    this.key?.learn(this, this.#sentAt, result instanceof StoreError ? result : undefined);
    this.#end(status, result, template.method === 'GET' && status >= 502 && status <= 504);
  }

  #fail(failure: RequestFailure, error: Error, mayRepeat: boolean): void {
    if (!this.#isOpen) return;
    // A refusal counts even if its body is incomplete.
    if (this.status === 401 || this.status === 429) return this.#succeed('');
    const { breaker } = this.upstream;
    if (failure === 'broken') breaker.answered();
    if (failure === 'unreachable' && this.#sentAt === 0) breaker.failed();
    // A POST is sent again only if the upstream certainly never received it.
    const isSafe = this.template.method === 'GET' || this.#sentAt === 0;
    this.#end(failure, error, isSafe && mayRepeat);
  }

  /** Sends the request again after a pause, if that may help, and the retry budget and the time allow it. */
  #end(outcome: number | RequestFailure, result: Result, mayRepeat: boolean): void {
    const { upstream } = this;
    upstream.observe?.(this.template.method, outcome, (performance.now() - this.queuedAt) / 1_000);
    if (!mayRepeat || upstream.breaker.isOpen || upstream.retriesLeft < 1 || this.key?.isExhausted)
      return this.finish(result);
    // Exponential backoff with full jitter, but not before the upstream wants it.
    const backoffMs = Math.random() * Math.min(LONGEST_BACKOFF_MS, FIRST_BACKOFF_MS * 2 ** this.retries);
    const pauseMs = Math.max(backoffMs, (parseRetryAfter(this, monotonicNow()) ?? 0) * 1_000);
    if (performance.now() + pauseMs >= (this.#batches[0]?.endsAt ?? 0)) return this.finish(result);
    upstream.retriesLeft -= 1;
    this.retries += 1;
    this.#forgetAnswer();
    this.#pause = setTimeout(() => upstream.enqueue(this), pauseMs);
  }

  /** The batch keeps this request until it ends, but not the text of its answer. */
  #forgetAnswer(): void {
    this.#isOpen = false;
    this.body = '';
    this.#headers = undefined;
    this.#chunks = [];
  }
}
