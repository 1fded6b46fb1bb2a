import { monotonicNow } from '../clock.js';
import { StoreError } from '../errors.js';
import type { Pet } from '../pets/pet.js';
import { CallCancelled, type Call } from '../pets/pet-source.js';
import type { Breaker } from './breaker.js';
import type { Outcome, UpstreamClient, UpstreamRequest } from './client.js';
import { parseRetryAfter } from './limits.js';
import { timedOut, unavailable, type UpstreamAnswer } from './wire.js';

/** What all requests of a call have in common. */
export type RequestTemplate = UpstreamRequest['template'] & {
  readonly call: Call;
  /** Reads the animals of an answer as soon as it arrives, so that its text and headers can be freed. */
  readonly read: (answer: UpstreamAnswer, path: string) => Result;
};

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

interface Shared {
  readonly client: Pick<UpstreamClient, 'send'>;
  readonly breaker: Breaker;
  /** The last GET of each key and path that has not ended. */
  readonly gets: Map<string, PendingRequest>;
  retriesLeft: number;
}

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
    const batch = new Batch(paths.length, call, timeoutMs);
    paths.forEach((path, index) => join(path, template, batch, index));
    await batch.settled;
    return batch.results;
  };

  /** Joins an equal GET of the key that has not been sent yet, or sends a request. */
  function join(path: string, template: RequestTemplate, batch: Batch, index: number): void {
    const id = `${template.call.key?.id ?? ''} ${path}`;
    const equal = template.method === 'GET' ? shared.gets.get(id) : undefined;
    // A call that arrives after the request was sent must see newer data.
    const isJoinable = equal !== undefined && equal.sentAt === undefined;
    const request = isJoinable ? equal : new PendingRequest(id, path, template, batch.endsAt, shared);
    batch.requests.push(request);
    request.waiting.push({ batch, index });
    if (!isJoinable) request.send();
  }
}

/** The requests of one call, which ends at its time limit, or when its client disconnects. */
class Batch {
  /** Index `i` belongs to `requests[i]`, which has not ended if there is none. */
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
    if (open === 0) this.#close();
  }

  settle(index: number, result: Result): void {
    this.results[index] = result;
    this.call.key?.finish();
    this.open -= 1;
    if (this.open === 0) this.#close();
  }

  #close(): void {
    clearTimeout(this.#timer);
    this.call.offCancel(this.#cancel);
    this.#resolve?.();
  }

  #end(error: Error): void {
    for (const [index, request] of this.requests.entries()) if (!this.results[index]) request.leave(this, index, error);
  }
}

/** A request with all its attempts, for which one or more calls wait. */
class PendingRequest implements UpstreamRequest {
  /** The calls, each with the index of its result. */
  waiting: { readonly batch: Batch; readonly index: number }[] = [];
  sentAt?: number;
  #cancel: ((reason: Error) => void) | undefined;
  #retries = 0;

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
    const attempt = this.shared.client.send(this);
    this.#cancel = (reason) => attempt.cancel(reason);
  }

  start(): Error | undefined {
    const { key } = this.call;
    return this.#retries === 0 ? key?.start() : key?.findRefusal();
  }

  /** One of the calls waits no longer. */
  leave(batch: Batch, index: number, reason: Error): void {
    if (this.waiting.length === 1) return this.#cancel?.(reason);
    this.waiting = this.waiting.filter((one) => one.batch !== batch || one.index !== index);
    batch.settle(index, reason);
  }

  conclude(outcome: Outcome): void {
    const { breaker } = this.shared;
    const { key } = this.call;
    let result: Result;
    if (outcome.kind === 'answer') {
      result = this.template.read(outcome, this.path);
      breaker.succeeded();
      key?.learn(outcome, this.sentAt ?? 0, isRefusal(result) ? result : undefined);
    } else {
      const { kind, error } = outcome;
      if (kind === 'unreachable' || kind === 'broken') breaker.failed();
      if (kind === 'timeout') breaker.failed(key?.id ?? '');
      result = error;
    }
    if (!isWorthRetrying(this.template.method, outcome) || !this.#retryLater(outcome)) this.#finish(result);
  }

  /** Sends the request again after a pause, if the retry budget and the time allow it. */
  #retryLater(outcome: Outcome): boolean {
    const { shared } = this;
    if (shared.breaker.isOpen || shared.retriesLeft < 1) return false;
    // Exponential backoff with full jitter, but not before the upstream wants it.
    const backoffMs = Math.random() * Math.min(LONGEST_BACKOFF_MS, FIRST_BACKOFF_MS * 2 ** this.#retries);
    const retryAfter = outcome.kind === 'answer' ? parseRetryAfter(outcome, monotonicNow()) : undefined;
    const pauseMs = Math.max(backoffMs, (retryAfter ?? 0) * 1_000);
    if (performance.now() + pauseMs >= this.endsAt) return false;
    shared.retriesLeft -= 1;
    this.#retries += 1;
    const timer = setTimeout(() => this.send(), pauseMs);
    this.#cancel = (reason) => {
      clearTimeout(timer);
      this.#finish(reason);
    };
    return true;
  }

  #finish(result: Result): void {
    const { gets } = this.shared;
    if (gets.get(this.id) === this) gets.delete(this.id);
    for (const { batch, index } of this.waiting) batch.settle(index, result);
  }
}

/** A GET may be sent twice. A POST is sent again only if the upstream certainly never received it. */
function isWorthRetrying(method: 'GET' | 'POST', outcome: Outcome): boolean {
  if (outcome.kind === 'answer') return method === 'GET' && RETRIED_STATUSES.has(outcome.status);
  if (outcome.kind !== 'unreachable' && outcome.kind !== 'mismatched') return false;
  return method === 'GET' || !outcome.wasSent;
}

/** Whether the upstream refused the key or its rate. */
function isRefusal(result: Result): result is StoreError {
  return result instanceof StoreError && (result.status === 401 || result.status === 429);
}
