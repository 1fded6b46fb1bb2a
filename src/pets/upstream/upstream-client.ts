import { isUtf8 } from 'node:buffer';
import { Client, type Dispatcher } from 'undici';
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

export interface UpstreamClient {
  send(request: OutgoingRequest): Sent;
  /** What is under way just now. */
  load(): UpstreamLoad;
  close(): Promise<void>;
}

export interface UpstreamLoad {
  /** Connections with a request on them. */
  readonly active: number;
  readonly idle: number;
  /** Requests that wait for a connection. */
  readonly waiting: number;
}

/**
 * Is told of every request that has ended, unless it never was to leave: the status, or else in one of few words why there is
 * none; and the time since it was sent, the wait for a connection included.
 */
export type ObserveRequest = (method: string, outcome: number | UpstreamFailureKind, seconds: number) => void;

export type UpstreamFailureKind = UpstreamFailure['kind'] | 'timeout' | 'cancelled';

export interface UpstreamClientOptions {
  /** The base address, such as `https://host/v1`. */
  readonly url: string;
  readonly connections: number;
  readonly connectTimeoutMs: number;
  readonly observe?: ObserveRequest | undefined;
}

/** A hundred animals with the longest names, escaped throughout, are a third of this. */
const MAX_ANSWER_BYTES = 1_048_576;

/**
 * Sends requests over kept-alive connections. It follows no redirect, keeps no cookie and retries nothing.
 *
 * Each connection is an undici Client with one request at a time. Requests that find none free wait here: undici's Pool
 * looks at every connection for each of them, and has made much of a request before it waits.
 */
export function createUpstreamClient({
  url,
  connections,
  connectTimeoutMs,
  observe,
}: UpstreamClientOptions): UpstreamClient {
  const { origin, pathname } = new URL(url);
  const base = pathname.replace(/\/+$/, '');
  const clients: Client[] = [];
  /** The one used last comes first, so that those not needed are left to close. */
  const idle: Client[] = [];
  /** Those that wait, linked in their order. */
  let first: UpstreamExchange | undefined;
  let last: UpstreamExchange | undefined;
  return {
    send(request) {
      const exchange = new UpstreamExchange(request, proceed, observe);
      const client = idle.pop() ?? (clients.length < connections ? connect() : undefined);
      if (client) dispatch(exchange, client);
      else {
        if (last) last.next = exchange;
        else first = exchange;
        last = exchange;
      }
      return exchange;
    },
    load() {
      let waiting = 0;
      for (let exchange = first; exchange; exchange = exchange.next) if (!exchange.isSettled) waiting += 1;
      return { active: clients.length - idle.length, idle: idle.length, waiting };
    },
    close: async () => {
      await Promise.all(clients.map((client) => client.destroy()));
    },
  };

  function connect(): Client {
    const client = new Client(origin, {
      pipelining: 1,
      connect: { timeout: connectTimeoutMs },
      // Whoever waits for an answer has a time limit of its own, and cancels.
      headersTimeout: 0,
      bodyTimeout: 0,
    });
    clients.push(client);
    return client;
  }

  function dispatch(exchange: UpstreamExchange, client: Client): void {
    const { method, path, headers, body } = exchange.request;
    exchange.client = client;
    client.dispatch({ method, path: base + path, headers, body: body ?? null }, exchange);
  }

  /** A connection is free for another request. */
  function proceed(client: Client): void {
    const exchange = takeWaiting();
    if (exchange) dispatch(exchange, client);
    else idle.push(client);
  }

  function takeWaiting(): UpstreamExchange | undefined {
    for (;;) {
      const exchange = first;
      if (!exchange) return undefined;
      first = exchange.next;
      exchange.next = undefined;
      if (!first) last = undefined;
      if (!exchange.isSettled) return exchange;
    }
  }
}

/** Follows one request through undici. */
class UpstreamExchange implements Dispatcher.DispatchHandler, Sent {
  /** The connection that the request is on; undefined while it waits for one. */
  client: Client | undefined;
  isSettled = false;
  /** The one that waits behind this one. */
  next: UpstreamExchange | undefined;
  #controller: Dispatcher.DispatchController | undefined;
  #hasLeft = false;
  #status = 0;
  #headers: Record<string, string | string[] | undefined> = {};
  readonly #chunks: Buffer[] = [];
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
    if (this.#size <= MAX_ANSWER_BYTES) this.#chunks.push(chunk);
    else this.#abort(this.#toAnswer(undefined));
  }

  onResponseEnd(): void {
    const [first] = this.#chunks;
    const bytes = first && this.#chunks.length === 1 ? first : Buffer.concat(this.#chunks);
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
