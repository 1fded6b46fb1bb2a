import { isUtf8 } from 'node:buffer';
import { Pool, type Dispatcher } from 'undici';

/** One request to another store. */
export interface UpstreamRequest {
  readonly method: 'GET' | 'POST';
  /** The path under the store's base address, with its leading slash. */
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string | undefined;
  /** Asked right before the request is written to a connection: throws when it must not leave any more. */
  readonly beforeLeaving: () => void;
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
  /** Rejects with an UpstreamFailure, with what `beforeLeaving` threw, or with the reason of `cancel`. */
  readonly answer: Promise<UpstreamAnswer>;
  cancel(reason: Error): void;
}

export interface UpstreamClient {
  send(request: UpstreamRequest): Sent;
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
    send({ method, path, headers, body, beforeLeaving }) {
      const exchange = new UpstreamExchange(beforeLeaving);
      pool.dispatch({ method, path: base + path, headers, body: body ?? null }, exchange);
      return exchange;
    },
    close: () => pool.destroy(),
  };
}

/** Follows one request through undici. */
class UpstreamExchange implements Dispatcher.DispatchHandler, Sent {
  readonly answer: Promise<UpstreamAnswer>;
  #resolve!: (answer: UpstreamAnswer) => void;
  #reject!: (error: unknown) => void;
  #controller: Dispatcher.DispatchController | undefined;
  #abortedBy: { readonly reason: unknown } | undefined;
  #hasLeft = false;
  #status = 0;
  #headers: Record<string, string | string[] | undefined> = {};
  readonly #chunks: Buffer[] = [];
  #size = 0;

  constructor(private readonly beforeLeaving: () => void) {
    this.answer = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
  }

  cancel(reason: Error): void {
    this.#abort(reason);
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller;
    try {
      if (!this.#abortedBy) this.beforeLeaving();
    } catch (error) {
      this.#abort(error);
    }
    if (this.#abortedBy) controller.abort(new Error('cancelled'));
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
      this.#resolve(this.#toAnswer(undefined));
      this.#abort(new Error('the answer is too large'));
    }
  }

  onResponseEnd(): void {
    const bytes = Buffer.concat(this.#chunks);
    this.#resolve(this.#toAnswer(isUtf8(bytes) ? bytes.toString('utf8') : undefined));
  }

  onResponseError(_: Dispatcher.DispatchController, error: Error): void {
    if (this.#abortedBy) return;
    const isBroken = this.#status !== 0 || error.name === 'HTTPParserError';
    this.#reject(new UpstreamFailure(isBroken ? 'broken' : 'unreachable', this.#hasLeft, error));
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

  #abort(reason: unknown): void {
    if (this.#abortedBy) return;
    this.#abortedBy = { reason };
    this.#reject(reason);
    this.#controller?.abort(new Error('cancelled'));
  }
}
