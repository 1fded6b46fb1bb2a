import { isUtf8 } from 'node:buffer';
import { Pool, type Dispatcher } from 'undici';

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

export interface UpstreamClient {
  send(request: OutgoingRequest): Sent;
  close(): Promise<void>;
}

export interface UpstreamClientOptions {
  /** The base address, such as `https://host/v1`. */
  readonly url: string;
  readonly connections: number;
  readonly connectTimeoutMs: number;
}

/** A hundred animals with the longest names, escaped throughout, are a third of this. */
const MAX_ANSWER_BYTES = 1_048_576;

/** Sends requests over kept-alive connections. It follows no redirect, keeps no cookie and retries nothing. */
export function createUpstreamClient({ url, connections, connectTimeoutMs }: UpstreamClientOptions): UpstreamClient {
  const { origin, pathname } = new URL(url);
  const base = pathname.replace(/\/+$/, '');
  const pool = new Pool(origin, {
    connections,
    pipelining: 1,
    connect: { timeout: connectTimeoutMs },
    // Whoever waits for an answer has a time limit of its own, and cancels.
    headersTimeout: 0,
    bodyTimeout: 0,
  });
  return {
    send(request) {
      const { method, path, headers, body } = request;
      const exchange = new UpstreamExchange(request);
      pool.dispatch({ method, path: base + path, headers, body: body ?? null }, exchange);
      return exchange;
    },
    close: () => pool.destroy(),
  };
}

/** Follows one request through undici. */
class UpstreamExchange implements Dispatcher.DispatchHandler, Sent {
  #controller: Dispatcher.DispatchController | undefined;
  #isAborted = false;
  #hasLeft = false;
  #status = 0;
  #headers: Record<string, string | string[] | undefined> = {};
  readonly #chunks: Buffer[] = [];
  #size = 0;

  constructor(private readonly request: OutgoingRequest) {}

  cancel(reason: Error): void {
    this.#abort(reason);
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller;
    try {
      if (!this.#isAborted) this.request.beforeLeaving();
    } catch (error) {
      this.#abort(error as Error);
    }
    if (this.#isAborted) controller.abort(new Error('cancelled'));
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
    if (this.#size <= MAX_ANSWER_BYTES) this.#chunks.push(chunk);
    else {
      this.#isAborted = true;
      this.request.settle(this.#toAnswer(undefined));
      this.#controller?.abort(new Error('the answer is too large'));
    }
  }

  onResponseEnd(): void {
    const [first] = this.#chunks;
    const bytes = first && this.#chunks.length === 1 ? first : Buffer.concat(this.#chunks);
    this.request.settle(this.#toAnswer(isUtf8(bytes) ? bytes.toString('utf8') : undefined));
  }

  onResponseError(_: Dispatcher.DispatchController, error: Error): void {
    if (this.#isAborted) return;
    const isBroken = this.#status !== 0 || error.name === 'HTTPParserError';
    this.request.settle(new UpstreamFailure(isBroken ? 'broken' : 'unreachable', this.#hasLeft, error));
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

  #abort(reason: Error): void {
    if (this.#isAborted) return;
    this.#isAborted = true;
    this.request.settle(reason);
    this.#controller?.abort(new Error('cancelled'));
  }
}
