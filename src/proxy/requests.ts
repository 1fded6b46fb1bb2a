import { setTimeout as sleep } from 'node:timers/promises';
import { monotonicNow } from '../clock.js';
import { StoreError } from '../errors.js';
import { toTraceHeaders, type Span, type Tracer } from '../observability/tracing.js';
import type { Pet } from '../pets/pet.js';
import { CallCancelled, type Call } from '../pets/pet-source.js';
import type { Breaker } from './breaker.js';
import type { Connections } from './connections.js';
import { createDeadline, type Deadline } from './deadline.js';
import type { Outcome, UpstreamAnswer, UpstreamRequest } from './exchange.js';
import type { KeyState } from './key-state.js';
import { backoffMs, createRetryBudget, isWorthRetrying } from './retries.js';
import { endUpstreamSpan, startUpstreamSpan, type DescribeUpstream } from './upstream-span.js';
import { timedOut, unavailable } from './wire.js';

export interface UpstreamRequestsOptions {
  readonly connections: Pick<Connections, 'send'>;
  readonly breaker: Breaker;
  /** Time for all requests of one call, from its start, in milliseconds. */
  readonly timeoutMs: number;
  readonly describe: DescribeUpstream;
  readonly tracer: Tracer;
}

/** What all requests of one call share. */
export interface RequestTemplate extends Pick<UpstreamRequest, 'method' | 'headers' | 'body'> {
  readonly call: Call;
  readonly key: KeyState;
  /** Reads the animals of an answer as soon as it arrives, so that its text and headers can be freed. */
  read(answer: UpstreamAnswer, path: string): Result;
}

/** The result of a request: the animals of its answer, or the error for the client. */
export type Result = readonly Pet[] | Error;

/** Requests several paths of the upstream at once. Returns one result for each path, in order. */
export type AskUpstream = (paths: readonly string[], template: RequestTemplate) => Promise<readonly Result[]>;

/** Creates the function that sends all requests to the upstream. */
export function createUpstreamRequests(options: UpstreamRequestsOptions): AskUpstream {
  const { connections, breaker, timeoutMs, describe, tracer } = options;
  const budget = createRetryBudget();
  /** The GETs that have not ended, by key and path. */
  const pending = new Map<string, SharedRequest>();
  let endOfTurn: Promise<void> | undefined;

  return async (paths, template) => {
    if (breaker.isOpen) return paths.map(() => unavailable());
    const { call, key } = template;
    const deadline = createDeadline(call, timeoutMs);
    const results: Result[] = [];
    while (results.length < paths.length) {
      const refusal = key.first && (await Promise.race([key.first, deadline.passed]));
      const error = refusal ?? deadline.findReason();
      const rest = paths.slice(results.length);
      if (error) results.push(...rest.map(() => error));
      else if (key.first) continue;
      else if (!key.limits.isUnknown(monotonicNow())) results.push(...(await askAll(rest, template, deadline)));
      else {
        const [path] = rest as [string];
        const first = await askFirst(path, template, deadline);
        // If the upstream refuses the first request, the thousands of a batch are not even created.
        results.push(...(isRefusal(first) ? rest.map(() => first) : [first]));
      }
    }
    deadline.close();
    return results;
  };

  /** Asks for one path while nothing is known of the key's limits. Its other requests wait for the answer. */
  async function askFirst(path: string, template: RequestTemplate, deadline: Deadline): Promise<Result> {
    const request = join(path, template, deadline);
    request.endFirst = template.key.startFirst();
    const [result] = (await waitFor([request], deadline)) as [Result];
    request.endFirst();
    return result;
  }

  function askAll(paths: readonly string[], template: RequestTemplate, deadline: Deadline): Promise<Result[]> {
    return waitFor(
      paths.map((path) => join(path, template, deadline)),
      deadline,
    );
  }

  /** Joins an equal request of the key, or starts one. */
  function join(path: string, template: RequestTemplate, deadline: Deadline): SharedRequest {
    const { call, method } = template;
    const id = `${call.key?.id ?? ''} ${path}`;
    let request = method === 'GET' ? pending.get(id) : undefined;
    if (!request?.isJoinable) {
      request = new SharedRequest(id, path, template, deadline);
      if (method === 'GET') pending.set(id, request);
      request.done = run(request);
    }
    request.join(call);
    return request;
  }

  /** Waits for the results of requests until the deadline. */
  async function waitFor(requests: readonly SharedRequest[], deadline: Deadline): Promise<Result[]> {
    await Promise.race([Promise.all(requests.map(({ done }) => done)), deadline.passed]);
    return requests.map((request) => {
      request.waiting -= 1;
      return request.result ?? giveUp(request, deadline.findReason() ?? timedOut());
    });
  }

  /** Stops waiting for a request, and cancels it if no other call waits. */
  function giveUp(request: SharedRequest, reason: Error): Error {
    const isCancelled = reason instanceof CallCancelled;
    const wasSent = request.waiting === 0 && request.progress?.cancel(reason);
    // A disconnected client or a full queue is no failure of the upstream.
    if (wasSent && !isCancelled) breaker.suspect();
    return request.lastFailure && !isCancelled ? request.lastFailure : reason;
  }

  /** Makes attempts until one succeeds or a retry makes no sense. */
  async function run(request: SharedRequest): Promise<void> {
    budget.deposit();
    await untilEndOfTurn();
    for (let retries = 0; request.waiting > 0; retries += 1) {
      request.result = request.template.call.key?.findRefusal();
      if (request.result) break;
      startSpan(request, retries);
      const outcome = await connections.send(request);
      const result = request.toResult(outcome);
      conclude(request, outcome, result);
      request.endFirst?.(outcome.kind === 'answer' && isRefusal(result) ? result : undefined);
      const pauseMs = isWorthRetrying(request.method, outcome) ? backoffMs(retries) : Infinity;
      if (!request.deadline.leaves(pauseMs) || breaker.isOpen || !budget.withdraw()) {
        request.result = result;
        break;
      }
      await sleep(pauseMs);
    }
    if (pending.get(request.id) === request) pending.delete(request.id);
  }

  /** Waits until the end of this turn of the event loop, so that equal requests can join. */
  function untilEndOfTurn(): Promise<void> {
    return (endOfTurn ??= new Promise((resolve) => {
      setImmediate(() => {
        endOfTurn = undefined;
        resolve();
      });
    }));
  }

  function startSpan(request: SharedRequest, retries: number): void {
    const { method, path, spans } = request;
    if (spans) request.span = startUpstreamSpan(tracer, spans, () => describe(method, path), retries);
  }

  /** Tells the trace, the breaker and the key what an attempt has come to. */
  function conclude(request: SharedRequest, outcome: Outcome, result: Result): void {
    if (request.span) endUpstreamSpan(request.span, outcome);
    const { kind } = outcome;
    if (kind === 'answer') {
      breaker.succeeded();
      request.learn(outcome, result);
    } else if (kind === 'unreachable' || kind === 'broken' || kind === 'mismatched') {
      request.lastFailure = outcome.error;
      if (kind !== 'mismatched') breaker.failed();
    }
  }
}

/** A request with all its attempts. Calls with the same path and key may join it until it is sent. */
class SharedRequest implements UpstreamRequest {
  /** Resolves when there is a result. */
  done!: Promise<void>;
  result: Result | undefined;
  /** How many calls wait for the result. */
  waiting = 0;
  /** Why the last attempt that got no answer got none. */
  lastFailure: Error | undefined;
  progress: UpstreamRequest['progress'];
  /** Ends the wait of the key's other requests. */
  endFirst: ((refusal?: Error) => void) | undefined;
  /** The span of the current attempt, and those of the waiting calls, if tracing is on. */
  span: Span | undefined;
  spans: Span[] | undefined;
  /** When the last attempt was sent, by `performance.now()`. */
  #sentAt: number | undefined;

  /**
   * @param id - the key and the path
   * @param deadline - of the first call: later calls may wait longer, but get no further attempts
   */
  constructor(
    readonly id: string,
    readonly path: string,
    readonly template: RequestTemplate,
    readonly deadline: Deadline,
  ) {}

  get keyId(): string {
    return this.template.call.key?.id ?? '';
  }
  get requestId(): string {
    return this.template.call.requestId;
  }
  get method(): UpstreamRequest['method'] {
    return this.template.method;
  }
  get headers(): UpstreamRequest['headers'] {
    const { headers } = this.template;
    return this.span ? { ...headers, ...toTraceHeaders(this.span) } : headers;
  }
  get body(): string | undefined {
    return this.template.body;
  }

  /** Whether another call may join. A call that arrives after the request was sent must see newer data. */
  get isJoinable(): boolean {
    return this.#sentAt === undefined && this.waiting > 0;
  }

  /** Adds a call that waits for the result. */
  join({ span }: Call): void {
    this.waiting += 1;
    if (!span?.isRecording() || this.spans?.includes(span)) return;
    (this.spans ??= []).push(span);
    this.span?.addLink({ context: span.spanContext() });
  }

  beforeSending(): Error | undefined {
    const refusal = this.template.call.key?.findRefusal();
    if (!refusal) this.#sentAt = performance.now();
    return refusal;
  }

  /** Updates the key's limits from the answer. */
  learn(answer: UpstreamAnswer, result: Result): void {
    this.template.call.key?.learn(answer, this.#sentAt ?? 0, isRefusal(result) ? result : undefined);
  }

  toResult(outcome: Outcome): Result {
    return outcome.kind === 'answer' ? this.template.read(outcome, this.path) : outcome.error;
  }
}

/** Whether the upstream refused the key or its rate. */
function isRefusal(result: Result): result is StoreError {
  return result instanceof StoreError && (result.status === 401 || result.status === 429);
}
