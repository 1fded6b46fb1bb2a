import { monotonicNow } from '../clock.js';
import { StoreError } from '../errors.js';
import type { Pet } from '../pets/pet.js';
import { CallCancelled, type Call } from '../pets/pet-source.js';
import type { Breaker } from './breaker.js';
import type { Outcome, UpstreamClient, UpstreamRequest } from './client.js';
import { parseRetryAfter } from './limits.js';
import { timedOut, unavailable, type UpstreamAnswer } from './wire.js';

/** What all requests of a call have in common. */
export interface RequestTemplate extends Pick<UpstreamRequest, 'method' | 'headers' | 'body'> {
  readonly call: Call;
  /** Reads the animals of an answer as soon as it arrives, so that its text and headers can be freed. */
  readonly read: (answer: UpstreamAnswer, path: string) => Result;
}

/** The result of a request: the animals of its answer, or the error for the client. */
export type Result = readonly Pet[] | Error;

/** Requests several paths of the upstream at once. Returns one result for each path, in order. */
export type AskUpstream = (paths: readonly string[], template: RequestTemplate) => Promise<readonly Result[]>;

/** Statuses of a temporary failure, after which a GET is sent again. */
const RETRIED_STATUSES = new Set([502, 503, 504]);
/** Each request earns this part of a retry, so that retries add little load to an upstream in trouble. */
const RETRY_SHARE = 0.15;
/** The most retries that can be saved up, which is also the number at the start. */
const MAX_RETRIES = 5;
const FIRST_BACKOFF_MS = 50;
const LONGEST_BACKOFF_MS = 1_000;

/**
 * Creates the function that sends all requests to the upstream.
 * @param timeoutMs - for all requests of one call, from its start
 */
export function createUpstreamRequests(
  client: Pick<UpstreamClient, 'send'>,
  breaker: Breaker,
  timeoutMs: number,
): AskUpstream {
  const shared: Shared = { client, breaker, gets: new Map(), retriesLeft: MAX_RETRIES };

  return async (paths, template) => {
    const { call } = template;
    if (call.isCancelled) throw new CallCancelled();
    if (!breaker.mayTry()) return paths.map(() => unavailable());
    const batch = new Batch(call, timeoutMs);
    paths.forEach((path, index) => join(path, template, batch, index));
    await batch.settled();
    batch.close();
    return batch.results;
  };

  /** Joins an equal GET of the key that has not been sent yet, or sends a request. */
  function join(path: string, template: RequestTemplate, batch: Batch, index: number): void {
    const equal = template.method === 'GET' ? shared.gets.get(toId(template.call, path)) : undefined;
    // A call that arrives after the request was sent must see newer data.
    const isJoinable = equal?.sentAt === undefined;
    const request = equal && isJoinable ? equal : new PendingRequest(path, template, batch, shared);
    batch.open.set(index, request);
    request.waiting.push([batch, index]);
    if (request !== equal) request.send();
  }
}

interface Shared {
  readonly client: Pick<UpstreamClient, 'send'>;
  readonly breaker: Breaker;
  /** The last GET of each key and path that has not ended. */
  readonly gets: Map<string, PendingRequest>;
  retriesLeft: number;
}

/** The requests of one call, which ends at its time limit, or when its client disconnects. */
class Batch {
  readonly results: Result[] = [];
  /** The requests without results, by index. */
  readonly open = new Map<number, PendingRequest>();
  readonly #endsAt: number;
  readonly #timer: NodeJS.Timeout;
  readonly #cancel = (): void => this.#end(new CallCancelled());
  #resolveSettled: (() => void) | undefined;

  constructor(
    readonly call: Call,
    timeoutMs: number,
  ) {
    this.#endsAt = call.startedAt + timeoutMs;
    this.#timer = setTimeout(() => this.#end(timedOut()), Math.ceil(this.#endsAt - performance.now()));
    call.onCancel(this.#cancel);
  }

  /** Whether more than this much time is left. */
  leaves(milliseconds: number): boolean {
    return performance.now() + milliseconds < this.#endsAt;
  }

  settle(index: number, result: Result): void {
    this.results[index] = result;
    this.open.delete(index);
    this.call.key?.finish();
    if (this.open.size === 0) this.#resolveSettled?.();
  }

  /** Resolves when all requests have results. */
  async settled(): Promise<void> {
    if (this.open.size > 0) await new Promise<void>((resolve) => (this.#resolveSettled = resolve));
  }

  close(): void {
    clearTimeout(this.#timer);
    this.call.offCancel(this.#cancel);
  }

  #end(error: Error): void {
    for (const [index, request] of this.open) request.leave(this, index, error);
  }
}

/** A request with all its attempts, for which one or more calls wait. */
class PendingRequest implements UpstreamRequest {
  /** The calls, each with the index of its result. */
  waiting: (readonly [Batch, number])[] = [];
  readonly method: UpstreamRequest['method'];
  readonly headers: UpstreamRequest['headers'];
  readonly body: UpstreamRequest['body'];
  sentAt?: number;
  #cancel: ((reason: Error) => void) | undefined;
  #retries = 0;
  /** Why the last attempt that got no answer got none. */
  #lastFailure: Result | undefined;

  /** @param deadline - the first call: the others may wait longer, but get no further attempts */
  constructor(
    readonly path: string,
    private readonly template: RequestTemplate,
    private readonly deadline: Batch,
    private readonly shared: Shared,
  ) {
    ({ method: this.method, headers: this.headers, body: this.body } = template);
    shared.retriesLeft = Math.min(MAX_RETRIES, shared.retriesLeft + RETRY_SHARE);
    if (this.method === 'GET') shared.gets.set(toId(template.call, path), this);
  }

  /** One of those that still wait, because the first may have left. */
  get call(): Call {
    return this.waiting[0]?.[0].call ?? this.template.call;
  }

  send(): void {
    this.#cancel = this.shared.client.send(this, (outcome) => this.#conclude(outcome));
  }

  start(): Error | undefined {
    const { key } = this.call;
    return this.#retries === 0 ? key?.start() : key?.findRefusal();
  }

  /** One of the calls waits no longer. */
  leave(batch: Batch, index: number, reason: Error): void {
    if (this.waiting.length === 1) return this.#cancel?.(reason);
    this.waiting = this.waiting.filter((one) => one[0] !== batch || one[1] !== index);
    batch.settle(index, reason);
  }

  /** Tells the breaker and the key how an attempt ended, and retries or finishes. */
  #conclude(outcome: Outcome): void {
    const { breaker } = this.shared;
    let result: Result;
    if (outcome.kind === 'answer') {
      result = this.template.read(outcome, this.path);
      breaker.succeeded();
      this.call.key?.learn(outcome, this.sentAt ?? 0, isRefusal(result) ? result : undefined);
    } else {
      const { kind, error, wasSent } = outcome;
      if (kind === 'unreachable' || kind === 'broken') breaker.failed();
      if (kind === 'timeout' && wasSent) breaker.failed(this.call.key?.id ?? '');
      result = kind === 'timeout' ? (this.#lastFailure ?? error) : error;
    }
    if (!isWorthRetrying(this.method, outcome) || !this.#retryLater(outcome, result)) this.#finish(result);
  }

  /** Sends the request again after a pause, if that makes sense. */
  #retryLater(outcome: Outcome, failure: Result): boolean {
    const { shared } = this;
    if (shared.breaker.isOpen || shared.retriesLeft < 1) return false;
    // Exponential backoff with full jitter, but not before the upstream wants it.
    const backoffMs = Math.random() * Math.min(LONGEST_BACKOFF_MS, FIRST_BACKOFF_MS * 2 ** this.#retries);
    const retryAfter = outcome.kind === 'answer' ? parseRetryAfter(outcome, monotonicNow()) : undefined;
    const pauseMs = Math.max(backoffMs, (retryAfter ?? 0) * 1_000);
    if (!this.deadline.leaves(pauseMs)) return false;
    shared.retriesLeft -= 1;
    this.#retries += 1;
    this.#lastFailure = failure;
    const timer = setTimeout(() => this.send(), pauseMs);
    this.#cancel = (reason) => {
      clearTimeout(timer);
      this.#finish(reason instanceof CallCancelled ? reason : failure);
    };
    return true;
  }

  #finish(result: Result): void {
    const { gets } = this.shared;
    const id = toId(this.template.call, this.path);
    if (gets.get(id) === this) gets.delete(id);
    for (const [batch, index] of this.waiting) batch.settle(index, result);
  }
}

function toId({ key }: Call, path: string): string {
  return `${key?.id ?? ''} ${path}`;
}

/** A GET may be sent twice. A POST is sent again only if the upstream certainly never received it. */
function isWorthRetrying(method: UpstreamRequest['method'], outcome: Outcome): boolean {
  if (outcome.kind === 'answer') return method === 'GET' && RETRIED_STATUSES.has(outcome.status);
  if (outcome.kind !== 'unreachable' && outcome.kind !== 'mismatched') return false;
  return method === 'GET' || !outcome.wasSent;
}

/** Whether the upstream refused the key or its rate. */
function isRefusal(result: Result): result is StoreError {
  return result instanceof StoreError && (result.status === 401 || result.status === 429);
}
