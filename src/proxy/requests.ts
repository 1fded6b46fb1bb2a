import { monotonicNow } from '../clock.js';
import { StoreError } from '../errors.js';
import type { Pet } from '../pets/pet.js';
import { CallCancelled, type Call } from '../pets/pet-source.js';
import type { Breaker } from './breaker.js';
import type { Attempt, Outcome, UpstreamAnswer, UpstreamClient, UpstreamRequest } from './client.js';
import { parseRetryAfter } from './limits.js';
import { timedOut, unavailable } from './wire.js';

export interface UpstreamRequestsOptions {
  readonly client: Pick<UpstreamClient, 'send'>;
  readonly breaker: Breaker;
  /** Time for all requests of one call, from its start, in milliseconds. */
  readonly timeoutMs: number;
}

/** What all requests of a call have in common. */
export interface RequestTemplate extends Pick<UpstreamRequest, 'method' | 'headers' | 'body'> {
  readonly call: Call;
  /** Reads the animals of an answer as soon as it arrives, so that its text and headers can be freed. */
  read(answer: UpstreamAnswer, path: string): Result;
}

/** The result of a request: the animals of its answer, or the error for the client. */
export type Result = readonly Pet[] | Error;

/** Statuses of a temporary failure, after which a GET is sent again. */
const RETRIED_STATUSES = new Set([502, 503, 504]);
/** Each request earns this part of a retry, so that retries add little load to an upstream in trouble. */
const RETRY_SHARE = 0.15;
/** The most retries that can be saved up, which is also the number at the start. */
const MAX_RETRIES = 5;
const FIRST_BACKOFF_MS = 50;
const LONGEST_BACKOFF_MS = 1_000;

/** Creates the function that requests several paths of the upstream at once. It returns one result for each path. */
export function createUpstreamRequests({ client, breaker, timeoutMs }: UpstreamRequestsOptions) {
  const shared: Shared = { client, breaker, unsent: new Map(), retriesLeft: MAX_RETRIES };

  return async (paths: readonly string[], template: RequestTemplate): Promise<readonly Result[]> => {
    const { call } = template;
    if (call.isCancelled) throw new CallCancelled();
    if (!breaker.mayTry()) return paths.map(() => unavailable());
    const { key } = call;
    const batch = new Batch(call, timeoutMs);
    let refusal: Error | undefined;
    for (let next = 0; next < paths.length && !refusal && !batch.error; ) {
      const { first } = key ?? {};
      if (first) {
        refusal = await Promise.race([first, batch.ended]);
        continue;
      }
      try {
        const started = key ? key.start(paths.length - next) : paths.length;
        const end = next + (typeof started === 'number' ? started : await started);
        for (; next < end; next += 1) join(paths[next] as string, template, batch, next);
        await batch.settled();
      } catch (thrown) {
        refusal = thrown as Error;
      }
    }
    batch.close();
    const error = refusal ?? batch.error ?? timedOut();
    return Array.from(paths, (_, index) => batch.results[index] ?? error);
  };

  /** Joins an equal GET of the key that has not been sent yet, or sends a request. */
  function join(path: string, template: RequestTemplate, batch: Batch, index: number): void {
    const equal = template.method === 'GET' ? shared.unsent.get(toId(template.call, path)) : undefined;
    const request = equal ?? new PendingRequest(path, template, batch, shared);
    batch.add(request, index);
    if (!equal) request.send();
  }
}

interface Shared extends Pick<UpstreamRequestsOptions, 'client' | 'breaker'> {
  /** The GETs that wait to be sent. A call that arrives later must see newer data. */
  readonly unsent: Map<string, PendingRequest>;
  retriesLeft: number;
}

/** The requests of one call. It ends at its time limit, or when its client disconnects. */
class Batch {
  readonly results: (Result | undefined)[] = [];
  /** Why it ended early. */
  error: Error | undefined;
  readonly ended: Promise<undefined>;
  readonly #open = new Map<number, PendingRequest>();
  readonly #endsAt: number;
  readonly #timer: NodeJS.Timeout;
  #resolveEnded!: () => void;
  #resolveSettled: (() => void) | undefined;

  constructor(
    private readonly call: Call,
    timeoutMs: number,
  ) {
    this.ended = new Promise((resolve) => (this.#resolveEnded = () => resolve(undefined)));
    this.#endsAt = call.startedAt + timeoutMs;
    this.#timer = setTimeout(() => this.#end(timedOut()), Math.ceil(this.#endsAt - performance.now()));
    call.onCancel(this.#cancel);
  }

  /** Whether at least this much time is left. */
  leaves(milliseconds: number): boolean {
    return performance.now() + milliseconds < this.#endsAt;
  }

  add(request: PendingRequest, index: number): void {
    this.#open.set(index, request);
    request.waiting.push({ batch: this, index });
  }

  settle(index: number, result: Result): void {
    this.results[index] = result;
    this.#open.delete(index);
    this.call.key?.finish(isRefusal(result) ? result : undefined);
    if (this.#open.size === 0) this.#resolveSettled?.();
  }

  /** Resolves when all requests have results. */
  settled(): Promise<void> | undefined {
    if (this.#open.size === 0) return undefined;
    return new Promise((resolve) => (this.#resolveSettled = resolve));
  }

  close(): void {
    clearTimeout(this.#timer);
    this.call.offCancel(this.#cancel);
  }

  readonly #cancel = (): void => this.#end(new CallCancelled());

  #end(error: Error): void {
    this.error = error;
    for (const [index, request] of this.#open) request.leave(this, index, error);
    this.#resolveEnded();
  }
}

/** A request with all its attempts, for which one or more calls wait. */
class PendingRequest implements UpstreamRequest {
  readonly waiting: { readonly batch: Batch; readonly index: number }[] = [];
  readonly keyId: string;
  #attempt: Attempt | undefined;
  #pause: NodeJS.Timeout | undefined;
  #sentAt = 0;
  #retries = 0;
  /** Why the last attempt that got no answer got none. */
  #lastFailure: Error | undefined;

  /** @param deadline - the first call: the others may wait longer, but get no further attempts */
  constructor(
    readonly path: string,
    private readonly template: RequestTemplate,
    private readonly deadline: Batch,
    private readonly shared: Shared,
  ) {
    this.keyId = template.call.key?.id ?? '';
    shared.retriesLeft = Math.min(MAX_RETRIES, shared.retriesLeft + RETRY_SHARE);
    if (this.method === 'GET') shared.unsent.set(toId(template.call, path), this);
  }

  get requestId(): string {
    return this.template.call.requestId;
  }

  get method(): UpstreamRequest['method'] {
    return this.template.method;
  }

  get headers(): readonly string[] {
    return this.template.headers;
  }

  get body(): string | undefined {
    return this.template.body;
  }

  send(): void {
    this.#attempt = this.shared.client.send(this);
  }

  /** One of the calls waits no longer. */
  leave(batch: Batch, index: number, reason: Error): void {
    if (this.waiting.length > 1) {
      this.waiting.splice(
        this.waiting.findIndex((one) => one.batch === batch && one.index === index),
        1,
      );
      batch.settle(index, reason);
    } else if (this.#pause) this.#finish(this.#lastFailure ?? reason);
    else this.#attempt?.cancel(reason);
  }

  onSend(): StoreError | undefined {
    this.#sentAt = performance.now();
    this.#closeToOthers();
    return this.template.call.key?.findRefusal();
  }

  onOutcome(outcome: Outcome): void {
    const result = this.#conclude(outcome);
    const { shared, deadline } = this;
    if (isWorthRetrying(this.method, outcome) && shared.retriesLeft >= 1 && !shared.breaker.isOpen) {
      // Exponential backoff with full jitter, but not before the upstream wants it.
      const backoffMs = Math.random() * Math.min(LONGEST_BACKOFF_MS, FIRST_BACKOFF_MS * 2 ** this.#retries);
      const retryAfter = outcome.kind === 'answer' ? parseRetryAfter(outcome, monotonicNow()) : undefined;
      const pauseMs = Math.max(backoffMs, (retryAfter ?? 0) * 1_000);
      if (deadline.leaves(pauseMs)) {
        shared.retriesLeft -= 1;
        this.#retries += 1;
        this.#lastFailure = result as Error;
        this.#pause = setTimeout(() => {
          this.#pause = undefined;
          this.send();
        }, pauseMs);
        return;
      }
    }
    this.#finish(result);
  }

  /** Reads the outcome of an attempt, and tells the breaker and the key. */
  #conclude(outcome: Outcome): Result {
    const { breaker } = this.shared;
    if (outcome.kind === 'answer') {
      const result = this.template.read(outcome, this.path);
      breaker.succeeded();
      this.template.call.key?.learn(outcome, this.#sentAt, isRefusal(result) ? result : undefined);
      return result;
    }
    const { kind, error, wasSent } = outcome;
    if (kind === 'unreachable' || kind === 'broken') breaker.failed();
    else if (kind === 'timeout' && wasSent) breaker.failed(this.keyId);
    return kind === 'timeout' ? (this.#lastFailure ?? error) : error;
  }

  #finish(result: Result): void {
    clearTimeout(this.#pause);
    this.#closeToOthers();
    for (const { batch, index } of this.waiting) batch.settle(index, result);
  }

  #closeToOthers(): void {
    const id = toId(this.template.call, this.path);
    if (this.shared.unsent.get(id) === this) this.shared.unsent.delete(id);
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
