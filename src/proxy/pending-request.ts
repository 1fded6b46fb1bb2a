import { toTraceHeaders, type Span } from '../observability/tracing.js';
import type { Pet } from '../pets/pet.js';
import type { Call } from '../pets/pet-source.js';
import type { Deadline } from './deadline.js';
import type { Attempt, UpstreamRequest } from './attempt.js';
import type { KeyState } from './key-state.js';
import type { UpstreamAnswer, UpstreamFailure } from './upstream-answer.js';

/** What all requests of one call share. */
export interface RequestTemplate extends Pick<UpstreamRequest, 'method' | 'headers' | 'body'> {
  readonly call: Call;
  readonly key: KeyState;
  /** Reads the animals of an answer as soon as it arrives, so that its text and headers can be freed. */
  read(answer: UpstreamAnswer, path: string): Result;
}

/** The result of a request: the animals of its answer, or the error for the client. */
export type Result = readonly Pet[] | Error;

/** A request with all its attempts. Calls with the same path and key may join it until it is sent. */
export class PendingRequest implements UpstreamRequest {
  /** Resolves when there is a result. */
  done!: Promise<void>;
  result: Result | undefined;
  /** How many calls wait for the result. */
  waiting = 0;
  /** The failure of the last attempt that got no answer. */
  lastFailure: UpstreamFailure | undefined;
  /** When the last attempt was sent, by `performance.now()`. */
  sentAt: number | undefined;
  /** The attempt in progress, and its span. */
  attempt: Attempt | undefined;
  span: Span | undefined;
  /** The spans of the waiting calls, if tracing is on. */
  spans: Span[] | undefined;

  /**
   * @param deadline - of the first call: later calls may wait longer, but get no further attempts
   */
  constructor(
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
    return this.sentAt === undefined && this.waiting > 0;
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
    if (!refusal) this.sentAt = performance.now();
    return refusal;
  }
}
