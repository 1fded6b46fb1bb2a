import { isUtf8 } from 'node:buffer';
import type { Client, Dispatcher } from 'undici';
import { StoreError } from '../../errors.js';

/** One request to another store. */
export interface OutgoingRequest {
  readonly method: 'GET' | 'POST';
  /** The path under the store's base address, with its leading slash. */
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string | undefined;
  /** Asked right before the request is written to a connection: throws when it must not leave any more. */
  beforeLeaving(): void;
  /** Called once: with the answer, an UpstreamFailure, what `beforeLeaving` threw, or the reason of `cancel`. */
  settle(outcome: UpstreamAnswer | Error): void;
}

/** An answer of another store, whatever its status. */
export interface UpstreamAnswer {
  readonly status: number;
  readonly header: (name: string) => string | undefined;
  /** Undefined when it is too large or not UTF-8: nothing to be read. */
  readonly body: string | undefined;
}

/** No answer came. */
export class UpstreamFailure extends Error {
  override readonly name = 'UpstreamFailure';

  constructor(
    /** `unreachable`: no connection, or it broke before the answer; `broken`: what came is not a whole HTTP answer. */
    readonly kind: 'unreachable' | 'broken',
    /** Whether the request may have reached the store. */
    readonly hasLeft: boolean,
    cause: Error,
  ) {
    super(cause.message, { cause });
  }
}

/** A request under way. */
export interface Sent {
  cancel(reason: Error): void;
}

/**
 * Is told of every request that has ended, unless it never was to leave: the status, or else in one of few words why there is
 * none; and the time since it was sent, the wait for a connection included.
 */
export type ObserveRequest = (method: string, outcome: number | UpstreamFailureKind, seconds: number) => void;

export type UpstreamFailureKind = UpstreamFailure['kind'] | 'timeout' | 'cancelled';

/** A hundred animals with the longest names, escaped throughout, are a third of this. */
const MAX_ANSWER_BYTES = 1_048_576;

const NO_HEADERS: Record<string, string | string[] | undefined> = {};

/** Follows one request through undici. */
export class UpstreamExchange implements Dispatcher.DispatchHandler, Sent {
  /** The connection that the request is on; undefined while it waits for one. */
  client: Client | undefined;
  isSettled = false;
  /** The one that waits behind this one. */
  next: UpstreamExchange | undefined;
  #controller: Dispatcher.DispatchController | undefined;
  #hasLeft = false;
  #status = 0;
  #headers = NO_HEADERS;
  #chunks: Buffer[] | undefined;
  readonly #startedAt = performance.now();
  #size = 0;

  /** @param onFree - called when the connection is free for another request */
  constructor(
    readonly request: OutgoingRequest,
    private readonly onFree: (client: Client) => void,
    private readonly observe: ObserveRequest | undefined,
  ) {}

  cancel(reason: Error): void {
    this.#abort(reason);
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller;
    try {
      if (!this.isSettled) this.request.beforeLeaving();
    } catch (error) {
      this.#abort(error as Error);
    }
    if (this.isSettled) controller.abort(new Error('cancelled'));
    else this.#hasLeft = true;
  }

  onResponseStart(
    _: Dispatcher.DispatchController,
    status: number,
    headers: Record<string, string | string[] | undefined>,
  ): void {
    this.#status = status;
    this.#headers = headers;
  }

  onResponseData(_: Dispatcher.DispatchController, chunk: Buffer): void {
    this.#size += chunk.length;
    if (this.#size <= MAX_ANSWER_BYTES) (this.#chunks ??= []).push(chunk);
    else this.#abort(this.#toAnswer(undefined));
  }

  onResponseEnd(): void {
    const chunks = this.#chunks ?? [];
    const bytes = chunks.length === 1 ? (chunks[0] as Buffer) : Buffer.concat(chunks);
    this.#end(this.#toAnswer(isUtf8(bytes) ? bytes.toString('utf8') : undefined));
  }

  onResponseError(_: Dispatcher.DispatchController, error: Error): void {
    const isBroken = this.#status !== 0 || error.name === 'HTTPParserError';
    this.#end(new UpstreamFailure(isBroken ? 'broken' : 'unreachable', this.#hasLeft, error));
  }

  #toAnswer(body: string | undefined): UpstreamAnswer {
    const headers = this.#headers;
    return {
      status: this.#status,
      body,
      header: (name) => {
        const value = headers[name];
        return Array.isArray(value) ? value.join(', ') : value;
      },
    };
  }

  /** Ends it before undici does, which will say so once the connection has been closed. */
  #abort(outcome: UpstreamAnswer | Error): void {
    this.#settle(outcome);
    this.#controller?.abort(new Error('cancelled'));
  }

  /** undici has done with the request. */
  #end(outcome: UpstreamAnswer | Error): void {
    if (this.client) this.onFree(this.client);
    this.client = undefined;
    this.#settle(outcome);
  }

  #settle(outcome: UpstreamAnswer | Error): void {
    if (this.isSettled) return;
    this.isSettled = true;
    if (this.observe) this.#report(outcome, this.observe);
    this.request.settle(outcome);
  }

  #report(outcome: UpstreamAnswer | Error, observe: ObserveRequest): void {
    const seconds = (performance.now() - this.#startedAt) / 1_000;
    if (!(outcome instanceof Error)) observe(this.request.method, outcome.status, seconds);
    else if (outcome instanceof UpstreamFailure) observe(this.request.method, outcome.kind, seconds);
    else if (outcome instanceof StoreError && outcome.code === 'upstream_timeout')
      observe(this.request.method, 'timeout', seconds);
    else if (this.#hasLeft) observe(this.request.method, 'cancelled', seconds);
  }
}
