import { StoreError } from '../../errors.js';
import { toTraceHeaders, type Span, type Tracer } from '../../observability/tracing.js';
import type { Call } from '../pet-source.js';
import type { Breaker } from './breaker.js';
import { backoffMs, type RetryBudget } from './retry-budget.js';
import { UpstreamFailure, type OutgoingRequest, type UpstreamAnswer } from './outgoing-request.js';
import type { Listener, Outcome, RequestTemplate, SharedRequest } from './shared-requests.js';
import type { Sent, UpstreamClient } from './upstream-client.js';
import { endUpstreamSpan, startUpstreamSpan, type DescribeUpstream } from './upstream-span.js';
import { parseErrorBody } from './wire.js';

/** What every request of a gateway has to do with. */
export interface UpstreamRequestParts {
  readonly client: UpstreamClient;
  readonly breaker: Breaker;
  readonly budget: RetryBudget;
  /** Time for everything that one call asks, from its start, in milliseconds. */
  readonly timeoutMs: number;
  readonly describe: DescribeUpstream;
  readonly tracer: Tracer;
}

/** What the requests of one call have in common. */
export type UpstreamTemplate = Pick<OutgoingRequest, 'method' | 'headers' | 'body'> & RequestTemplate;

/** Answers of a store that is passing through trouble; a GET is worth another try. */
const RETRIED_STATUSES = new Set([502, 503, 504]);

/** One request to another store. A GET is tried again while the budget lasts; a POST only if it never left. */
export class UpstreamRequest implements SharedRequest, OutgoingRequest {
  lastFailure: Error | undefined;
  #sent: Sent | undefined;
  #leftAt: number | undefined;
  #retries = 0;
  #cancelledFor: Error | undefined;
  #pause: NodeJS.Timeout | undefined;
  /** The spans of those who have joined. */
  #joined: Span[] | undefined;
  /** That of the attempt under way. */
  #span: Span | undefined;

  constructor(
    private readonly parts: UpstreamRequestParts,
    readonly path: string,
    private readonly template: UpstreamTemplate,
    private readonly call: Call,
    private readonly listener: Listener,
  ) {
    parts.budget.deposit();
    // Whoever asks the same in this turn of the event loop joins.
    startAtEndOfTurn(this);
  }

  get method(): OutgoingRequest['method'] {
    return this.template.method;
  }
  get headers(): OutgoingRequest['headers'] {
    const { headers } = this.template;
    return this.#span ? { ...headers, ...toTraceHeaders(this.#span) } : headers;
  }
  get body(): string | undefined {
    return this.template.body;
  }

  get hasLeft(): boolean {
    return this.#leftAt !== undefined;
  }

  join({ span }: Call): void {
    if (!span?.isRecording() || span === this.call.span) return;
    (this.#joined ??= []).push(span);
    this.#span?.addLink({ context: span.spanContext() });
  }

  cancel(reason: Error): void {
    // A call whose time is over, not a client that went away.
    if (reason instanceof StoreError) this.parts.breaker.failed();
    this.#cancelledFor = reason;
    if (this.#pause) {
      clearTimeout(this.#pause);
      this.listener.end(reason);
    } else this.#sent?.cancel(reason);
  }

  /** Makes an attempt. */
  start(): void {
    this.#pause = undefined;
    if (this.#cancelledFor) {
      this.listener.end(this.#cancelledFor);
      return;
    }
    const { tracer, describe } = this.parts;
    const askers = [this.call.span, ...(this.#joined ?? [])];
    this.#span = startUpstreamSpan(tracer, askers, () => describe(this.method, this.path), this.#retries);
    this.#sent = this.parts.client.send(this);
  }

  beforeLeaving(): void {
    const refusal = this.call.key?.findRefusal();
    if (refusal) throw refusal;
    this.#leftAt = performance.now();
  }

  settle(outcome: Outcome): void {
    const { breaker, budget } = this.parts;
    if (this.#span) endUpstreamSpan(this.#span, outcome);
    if (!(outcome instanceof Error)) this.#learn(outcome);
    else if (outcome instanceof UpstreamFailure) {
      this.lastFailure = outcome;
      breaker.failed();
    }
    const pause = this.#isWorthRetrying(outcome) ? backoffMs(this.#retries) : Infinity;
    if (this.#isInTime(pause) && !breaker.isOpen && budget.withdraw()) {
      this.#retries += 1;
      this.#pause = setTimeout(() => this.start(), pause);
    } else this.listener.end(outcome);
  }

  #learn(answer: UpstreamAnswer): void {
    this.parts.breaker.succeeded();
    const { status, header, body } = answer;
    const errorCode = status === 429 && body !== undefined ? parseErrorBody(body)?.code : undefined;
    this.call.key?.learn(errorCode === undefined ? answer : { status, header, errorCode }, this.#leftAt ?? 0);
  }

  #isInTime(pause: number): boolean {
    return pause !== Infinity && performance.now() + pause < this.call.startedAt + this.parts.timeoutMs;
  }

  #isWorthRetrying(outcome: Outcome): boolean {
    const { method } = this;
    if (outcome instanceof UpstreamFailure)
      return outcome.kind === 'unreachable' && (method === 'GET' || !outcome.hasLeft);
    return !(outcome instanceof Error) && method === 'GET' && RETRIED_STATUSES.has(outcome.status);
  }
}

let starting: UpstreamRequest[] = [];

function startAtEndOfTurn(request: UpstreamRequest): void {
  if (starting.push(request) > 1) return;
  setImmediate(() => {
    const due = starting;
    starting = [];
    for (const one of due) one.start();
  });
}
