import { isUtf8 } from 'node:buffer';
import type { Dispatcher } from 'undici';
import { StoreError } from '../errors.js';
import type { RequestIds } from './request-ids.js';
import { UpstreamFailure, type Outcome, type UpstreamAnswer } from './upstream-answer.js';

/** A request to the upstream. */
export interface UpstreamRequest {
  readonly method: 'GET' | 'POST';
  /** The path under the upstream's base address, with its leading slash. */
  readonly path: string;
  /** All headers except `X-Request-Id`. */
  readonly headers: Readonly<Record<string, string>>;
  /** The id of the client's request. */
  readonly requestId: string;
  readonly body?: string | undefined;
  /** The caller's key. When requests wait for a connection, the keys take turns. */
  readonly keyId: string;
  /** Called right before the request is written to a connection. Returns an error if it must not be sent any more. */
  beforeSending(): Error | undefined;
}

export type FailureKind = UpstreamFailure['kind'] | 'timeout' | 'cancelled';

/**
 * Called for every request that was sent or should have been sent.
 * @param outcome - the status, or why there is none
 * @param seconds - the time since the request was created, including the wait for a connection
 */
export type ObserveRequest = (method: string, outcome: number | FailureKind, seconds: number) => void;

/** A hundred animals with the longest names, with every character escaped, take a third of this. */
const MAX_ANSWER_BYTES = 1_048_576;

const TOO_MANY_REQUESTS = 429;

type Headers = Readonly<Record<string, string | string[] | undefined>>;
type Controller = Dispatcher.DispatchController;

const NO_HEADERS: Headers = {};

/** One request and its response. undici calls its handlers. */
export class Attempt implements Dispatcher.DispatchHandler {
  /** Resolves with the answer, an `UpstreamFailure`, what `beforeSending` returned, or the reason of `cancel`. */
  readonly outcome: Promise<Outcome>;
  isSettled = false;
  wasSent = false;
  readonly id: string;
  /** Called when the connection has no request any more. */
  onDone: () => void = () => undefined;
  #resolve!: (outcome: Outcome) => void;
  #controller: Controller | undefined;
  #status = 0;
  #headers = NO_HEADERS;
  #chunks: Buffer[] | undefined;
  #size = 0;
  readonly #startedAt = performance.now();

  constructor(
    readonly request: UpstreamRequest,
    private readonly ids: RequestIds,
    private readonly observe: ObserveRequest | undefined,
  ) {
    this.id = ids.create(request.requestId);
    this.outcome = new Promise((resolve) => (this.#resolve = resolve));
  }

  /** Ends the request at once. The upstream may have received it. */
  cancel(reason: Error): void {
    this.#settle(reason);
    this.#controller?.abort(reason);
  }

  onRequestStart(controller: Controller): void {
    this.#controller = controller;
    const refusal = this.isSettled ? undefined : this.request.beforeSending();
    if (refusal) this.#settle(refusal);
    if (this.isSettled) controller.abort(new Error('cancelled'));
    else this.wasSent = true;
  }

  onResponseStart(controller: Controller, status: number, headers: Headers): void {
    const isInformational = status < 200;
    if (isInformational) return;
    if (!this.ids.matches(this.id, readHeader(headers, 'x-request-id'), status)) {
      const error = new Error('the response is not that of the request');
      this.#settle(new UpstreamFailure('mismatched', true, error));
      controller.abort(error);
      return;
    }
    this.#status = status;
    this.#headers = headers;
  }

  onResponseData(controller: Controller, chunk: Buffer): void {
    this.#size += chunk.length;
    if (this.#size <= MAX_ANSWER_BYTES) (this.#chunks ??= []).push(chunk);
    else {
      this.#settle(this.#toAnswer(undefined));
      controller.abort(new Error('the response is too large'));
    }
  }

  onResponseEnd(): void {
    const chunks = this.#chunks ?? [];
    const bytes = chunks.length === 1 ? (chunks[0] as Buffer) : Buffer.concat(chunks);
    this.#settle(this.#toAnswer(isUtf8(bytes) ? bytes.toString('utf8') : undefined));
    this.onDone();
  }

  onResponseError(_controller: Controller | undefined, error: Error): void {
    // The gateway needs only the headers of a 429, so it counts even if its body is incomplete.
    if (this.#status === TOO_MANY_REQUESTS) this.#settle(this.#toAnswer(undefined));
    else {
      const isBroken = this.#status !== 0 || error.name === 'HTTPParserError';
      this.#settle(new UpstreamFailure(isBroken ? 'broken' : 'unreachable', this.wasSent, error));
    }
    this.onDone();
  }

  #toAnswer(body: string | undefined): UpstreamAnswer {
    const headers = this.#headers;
    return { status: this.#status, body, header: (name) => readHeader(headers, name) };
  }

  #settle(outcome: Outcome): void {
    if (this.isSettled) return;
    this.isSettled = true;
    const observed = toObserved(outcome, this.wasSent);
    if (observed !== undefined) {
      this.observe?.(this.request.method, observed, (performance.now() - this.#startedAt) / 1_000);
    }
    this.#resolve(outcome);
  }
}

function readHeader(headers: Headers, name: string): string | undefined {
  const value = headers[name];
  return Array.isArray(value) ? value.join(', ') : value;
}

function toObserved(outcome: Outcome, wasSent: boolean): number | FailureKind | undefined {
  if (!(outcome instanceof Error)) return outcome.status;
  if (outcome instanceof UpstreamFailure) return outcome.kind;
  if (outcome instanceof StoreError && outcome.code === 'upstream_timeout') return 'timeout';
  return wasSent ? 'cancelled' : undefined;
}
