import { setTimeout as sleep } from 'node:timers/promises';
import { monotonicNow } from '../clock.js';
import { StoreError } from '../errors.js';
import type { Pet } from '../pets/pet.js';
import { CallCancelled, type Call } from '../pets/pet-source.js';
import type { Breaker } from './breaker.js';
import type { Connections } from './connections.js';
import type { Outcome, UpstreamAnswer, UpstreamRequest } from './exchange.js';
import { parseRetryAfter } from './limit-fields.js';
import { timedOut, unavailable } from './wire.js';

export interface UpstreamRequestsOptions {
  readonly connections: Pick<Connections, 'send'>;
  readonly breaker: Breaker;
  /** Time for all requests of one call, from its start, in milliseconds. */
  readonly timeoutMs: number;
}

/** What all requests of a call have in common. */
interface RequestTemplate extends Pick<UpstreamRequest, 'method' | 'headers' | 'body'> {
  readonly call: Call;
  /** Reads the animals of an answer as soon as it arrives, so that its text and headers can be freed. */
  read(answer: UpstreamAnswer, path: string): Result;
}

/** The result of a request: the animals of its answer, or the error for the client. */
export type Result = readonly Pet[] | Error;

/** Requests several paths of the upstream at once. Returns one result for each path, in order. */
type AskUpstream = (paths: readonly string[], template: RequestTemplate) => Promise<readonly Result[]>;

/** Statuses of a temporary failure, after which a GET is sent again. */
const RETRIED_STATUSES = new Set([502, 503, 504]);
/** Each request earns this part of a retry, so that retries add little load to an upstream in trouble. */
const RETRY_SHARE = 0.15;
/** The most retries that can be saved up, which is also the number at the start. */
const MAX_RETRIES = 5;
const FIRST_BACKOFF_MS = 50;
const LONGEST_BACKOFF_MS = 1_000;

/** Creates the function that sends all requests to the upstream. */
export function createUpstreamRequests(options: UpstreamRequestsOptions): AskUpstream {
  const { connections, breaker, timeoutMs } = options;
  let retriesLeft = MAX_RETRIES;
  /**
   * The GETs that have not ended, by key and path. Their entries are emptied at the end: as a Map in V8's old generation
   * grows and shrinks, it leaves tables behind, which keep all that was in them alive until the next full collection.
   */
  const pending = new Map<string, { request?: PendingRequest | undefined }>();

  return async (paths, template) => {
    if (breaker.isOpen) return paths.map(() => unavailable());
    const { call } = template;
    const deadline = createDeadline(call, timeoutMs);
    const results: Result[] = [];
    while (results.length < paths.length) {
      const probe = call.key?.findProbe();
      const refusal = probe && (await Promise.race([probe, deadline.passed]))?.refusal;
      const error = refusal ?? deadline.findReason();
      const rest = paths.slice(results.length);
      if (error) results.push(...rest.map(() => error));
      else if (!call.key?.areLimitsUnknown) results.push(...(await askAll(rest, template, deadline)));
      else if (!call.key.findProbe()) {
        const endProbe = call.key.sendProbe();
        const [first] = (await askAll(rest.slice(0, 1), template, deadline)) as [Result];
        endProbe();
        // If the upstream refuses the first request, the thousands of a batch are not even created.
        results.push(...(isRefusal(first) ? rest.map(() => first) : [first]));
      }
    }
    deadline.close();
    return results;
  };

  /** Waits for the results of requests until the deadline. */
  async function askAll(
    paths: readonly string[],
    template: RequestTemplate,
    deadline: Deadline,
  ): Promise<readonly Result[]> {
    const requests = paths.map((path) => join(path, template, deadline));
    await Promise.race([Promise.all(requests.map(({ done }) => done)), deadline.passed]);
    return requests.map((request) => {
      request.waiting -= 1;
      return request.result ?? giveUp(request, deadline.findReason() ?? timedOut());
    });
  }

  /** Joins an equal request of the key, or starts one. */
  function join(path: string, template: RequestTemplate, deadline: Deadline): PendingRequest {
    const { call, method } = template;
    const id = `${call.key?.id ?? ''} ${path}`;
    let request = method === 'GET' ? pending.get(id)?.request : undefined;
    if (!request?.isJoinable) {
      request = new PendingRequest(path, template, deadline);
      if (method === 'GET') pending.set(id, { request });
      request.done = run(request, id);
    }
    request.waiting += 1;
    return request;
  }

  /** Stops waiting for a request, and cancels it if no other call waits. */
  function giveUp(request: PendingRequest, reason: Error): Error {
    const isCancelled = reason instanceof CallCancelled;
    const wasSent = request.waiting === 0 && request.progress?.cancel(reason);
    // A disconnected client or a full queue is no failure of the upstream.
    if (wasSent && !isCancelled) breaker.failed();
    return request.lastFailure && !isCancelled ? request.lastFailure : reason;
  }

  /** Makes attempts until one succeeds or a retry makes no sense. */
  async function run(request: PendingRequest, id: string): Promise<void> {
    retriesLeft = Math.min(MAX_RETRIES, retriesLeft + RETRY_SHARE);
    await Promise.resolve();
    for (let retries = 0; request.waiting > 0; retries += 1) {
      request.result = request.call.key?.findRefusal();
      if (request.result) break;
      const outcome = await connections.send(request);
      const result = conclude(request, outcome);
      // Exponential backoff with full jitter, but not before the upstream wants it.
      const backoffMs = Math.random() * Math.min(LONGEST_BACKOFF_MS, FIRST_BACKOFF_MS * 2 ** retries);
      const retryAfter = outcome.kind === 'answer' ? parseRetryAfter(outcome, monotonicNow()) : undefined;
      const pauseMs = Math.max(backoffMs, (retryAfter ?? 0) * 1_000);
      const mayRetry = isWorthRetrying(request, outcome) && request.deadline.leaves(pauseMs) && !breaker.isOpen;
      if (!mayRetry || retriesLeft < 1) {
        request.result = result;
        break;
      }
      retriesLeft -= 1;
      await sleep(pauseMs);
    }
    const entry = pending.get(id);
    if (entry?.request === request) {
      entry.request = undefined;
      pending.delete(id);
    }
  }

  /** Reads the outcome of an attempt, and tells the breaker and the key. */
  function conclude(request: PendingRequest, outcome: Outcome): Result {
    if (outcome.kind === 'answer') {
      const result = request.template.read(outcome, request.path);
      breaker.succeeded();
      request.call.key?.learn(outcome, request.sentAt ?? 0, isRefusal(result) ? result : undefined);
      return result;
    }
    const { kind, error } = outcome;
    if (kind === 'unreachable' || kind === 'broken') breaker.failed();
    if (kind === 'unreachable' || kind === 'broken' || kind === 'mismatched') request.lastFailure = error;
    return error;
  }
}

/** A request with all its attempts. */
class PendingRequest implements UpstreamRequest {
  /** Resolves when there is a result. */
  done!: Promise<void>;
  result: Result | undefined;
  /** How many calls wait for the result. */
  waiting = 0;
  /** Why the last attempt that got no answer got none. */
  lastFailure: Error | undefined;
  progress: UpstreamRequest['progress'];
  sentAt: number | undefined;
  readonly call: Call;
  readonly method: UpstreamRequest['method'];
  readonly headers: UpstreamRequest['headers'];
  readonly body: UpstreamRequest['body'];

  /** @param deadline - of the first call: later calls may wait longer, but get no further attempts */
  constructor(
    readonly path: string,
    readonly template: RequestTemplate,
    readonly deadline: Deadline,
  ) {
    ({ call: this.call, method: this.method, headers: this.headers, body: this.body } = template);
  }

  /** Whether another call may join. A call that arrives after the request was sent must see newer data. */
  get isJoinable(): boolean {
    return this.sentAt === undefined && this.waiting > 0;
  }
}

type Deadline = ReturnType<typeof createDeadline>;

/**
 * When a call stops waiting for its requests: at its time limit, or when its client disconnects.
 * @param timeoutMs - time for the call, counted from its start
 */
function createDeadline(call: Call, timeoutMs: number) {
  const endsAt = call.startedAt + timeoutMs;
  let pass!: () => void;
  const passed = new Promise<undefined>((resolve) => (pass = () => resolve(undefined)));
  const timer = setTimeout(pass, Math.ceil(endsAt - performance.now()));
  call.onCancel(pass);
  /** Whether at least this much time is left. */
  const leaves = (milliseconds: number): boolean => performance.now() + milliseconds < endsAt;

  return {
    passed,
    leaves,
    /** Why the call stops waiting; undefined while there is time. */
    findReason: () => (call.isCancelled ? new CallCancelled() : leaves(0) ? undefined : timedOut()),
    close() {
      clearTimeout(timer);
      call.offCancel(pass);
    },
  };
}

/** A GET may be sent twice. A POST is sent again only if the upstream certainly never received it. */
function isWorthRetrying({ method }: UpstreamRequest, outcome: Outcome): boolean {
  if (outcome.kind === 'answer') return method === 'GET' && RETRIED_STATUSES.has(outcome.status);
  if (outcome.kind !== 'unreachable' && outcome.kind !== 'mismatched') return false;
  return method === 'GET' || !outcome.wasSent;
}

/** Whether the upstream refused the key or its rate. */
function isRefusal(result: Result): result is StoreError {
  return result instanceof StoreError && (result.status === 401 || result.status === 429);
}
