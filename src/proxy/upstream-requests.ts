import { setTimeout as sleep } from 'node:timers/promises';
import { monotonicNow } from '../clock.js';
import { StoreError } from '../errors.js';
import type { Tracer } from '../observability/tracing.js';
import { CallCancelled } from '../pets/pet-source.js';
import type { Breaker } from './breaker.js';
import { Deadline } from './deadline.js';
import { PendingRequest, type RequestTemplate, type Result } from './pending-request.js';
import { backoffMs, type RetryBudget } from './retry-budget.js';
import { UpstreamFailure, type Outcome, type UpstreamAnswer } from './upstream-answer.js';
import type { UpstreamClient } from './upstream-client.js';
import { fromFailure, timedOut, unavailable } from './upstream-errors.js';
import { endUpstreamSpan, startUpstreamSpan, type DescribeUpstream } from './upstream-span.js';
import { parseErrorBody } from './wire.js';

export interface UpstreamRequestsOptions {
  readonly client: UpstreamClient;
  readonly breaker: Breaker;
  readonly budget: RetryBudget;
  /** Time for all requests of one call, from its start, in milliseconds. */
  readonly timeoutMs: number;
  readonly describe: DescribeUpstream;
  readonly tracer: Tracer;
}

/** Requests several paths of the upstream at once. Returns one result for each path, in order. */
export type AskUpstream = (paths: readonly string[], template: RequestTemplate) => Promise<readonly Result[]>;

/** Statuses of a temporary failure, after which a GET is retried. */
const RETRIED_STATUSES = new Set([502, 503, 504]);

/** Creates the function that sends all requests to the upstream. */
export function createUpstreamRequests(options: UpstreamRequestsOptions): AskUpstream {
  const { client, breaker, budget, timeoutMs, describe, tracer } = options;
  let endOfTurn: Promise<void> | undefined;

  return async (paths, template) => {
    const [path, ...others] = paths;
    if (path === undefined || others.length === 0 || !template.key.limits.isUnknown(monotonicNow())) {
      return askAll(paths, template);
    }
    // If the upstream refuses the first request, the thousands of a batch are not even created.
    const [first] = (await askAll([path], template)) as [Result];
    const isRefused = first instanceof StoreError && (first.status === 401 || first.status === 429);
    return [first, ...(isRefused ? others.map(() => first) : await askAll(others, template))];
  };

  async function askAll(paths: readonly string[], template: RequestTemplate): Promise<readonly Result[]> {
    if (breaker.isOpen) return paths.map(() => unavailable());
    const deadline = new Deadline(template.call, timeoutMs);
    const tooLate = deadline.findReason();
    if (tooLate) {
      deadline.close();
      return paths.map(() => tooLate);
    }
    const requests = paths.map((path) => {
      const request = findJoinable(path, template) ?? start(path, template, deadline);
      request.join(template.call);
      return request;
    });

    await Promise.race([Promise.all(requests.map(({ done }) => done)), deadline.passed]);
    deadline.close();

    return requests.map((request) => {
      request.waiting -= 1;
      return request.result ?? giveUp(request, deadline.findReason() ?? timedOut());
    });
  }

  function start(path: string, template: RequestTemplate, deadline: Deadline): PendingRequest {
    const request = new PendingRequest(path, template, deadline);
    if (template.method === 'GET') template.key.addPending(request);
    request.done = run(request);
    return request;
  }

  /** Stops waiting for a request, and cancels it if no other call waits. */
  function giveUp(request: PendingRequest, reason: Error): Error {
    const isCancelled = reason instanceof CallCancelled;
    if (request.waiting === 0) {
      // A disconnected client or a full queue is no failure of the upstream.
      if (!isCancelled && request.attempt?.wasSent) breaker.suspect();
      request.attempt?.cancel(reason);
    }
    return request.lastFailure && !isCancelled ? fromFailure(request.lastFailure) : reason;
  }

  /** Makes attempts until one succeeds or a retry makes no sense. */
  async function run(request: PendingRequest): Promise<void> {
    budget.deposit();
    await untilEndOfTurn();
    const { key, call } = request.template;
    for (let retries = 0; ; retries += 1) {
      while (key.first && !request.result) request.result = await key.first;
      request.result ??= call.key?.findRefusal();
      if (request.waiting === 0 || request.result) break;
      const endFirst = key.startFirst();
      const outcome = await startAttempt(request, retries);
      endAttempt(request, outcome);
      endFirst?.(isRefusal(outcome) ? toResult(request, outcome) : undefined);
      const pauseMs = isWorthRetrying(request, outcome) ? backoffMs(retries) : Infinity;
      if (!request.deadline.leaves(pauseMs) || breaker.isOpen || !budget.withdraw()) {
        request.result = toResult(request, outcome);
        break;
      }
      await sleep(pauseMs);
    }
    key.removePending(request);
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

  function startAttempt(request: PendingRequest, retries: number): Promise<Outcome> {
    const { method, path, spans } = request;
    if (spans) request.span = startUpstreamSpan(tracer, spans, () => describe(method, path), retries);
    request.attempt = client.send(request);
    return request.attempt.outcome;
  }

  function endAttempt(request: PendingRequest, outcome: Outcome): void {
    // The attempt holds the response headers. Release them before the operation ends.
    request.attempt = undefined;
    if (request.span) endUpstreamSpan(request.span, outcome);
    if (outcome instanceof UpstreamFailure) {
      request.lastFailure = outcome;
      if (outcome.kind !== 'mismatched') breaker.failed();
    } else if (!(outcome instanceof Error)) {
      breaker.succeeded();
      learn(request, outcome);
    }
  }
}

function findJoinable(path: string, { method, key }: RequestTemplate): PendingRequest | undefined {
  const request = method === 'GET' ? key.findPending(path) : undefined;
  return request?.isJoinable ? request : undefined;
}

function toResult({ template, path }: PendingRequest, outcome: Outcome): Result {
  if (outcome instanceof UpstreamFailure) return fromFailure(outcome);
  return outcome instanceof Error ? outcome : template.read(outcome, path);
}

/** Updates the key's limits from the answer. */
function learn({ template, sentAt = 0 }: PendingRequest, { status, header, body }: UpstreamAnswer): void {
  const errorCode = status === 429 && body !== undefined ? parseErrorBody(body)?.code : undefined;
  template.call.key?.learn({ status, header, errorCode }, sentAt);
}

/** Whether the upstream refused the key or its rate. */
function isRefusal(outcome: Outcome): boolean {
  return !(outcome instanceof Error) && (outcome.status === 401 || outcome.status === 429);
}

/** A GET may be sent twice. A POST is sent again only if the upstream certainly never received it. */
function isWorthRetrying({ method }: PendingRequest, outcome: Outcome): boolean {
  if (outcome instanceof UpstreamFailure) {
    return outcome.kind !== 'broken' && (method === 'GET' || !outcome.wasSent);
  }
  return !(outcome instanceof Error) && method === 'GET' && RETRIED_STATUSES.has(outcome.status);
}
