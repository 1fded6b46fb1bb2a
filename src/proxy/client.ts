import { isUtf8 } from 'node:buffer';
import { Pool, type Dispatcher } from 'undici';
import { CallCancelled, type Call } from '../pets/pet-source.js';
import { createRequestIds, type RequestIds } from './request-ids.js';
import { decode, notUnderstood, unavailable, type UpstreamAnswer } from './wire.js';

/** A request to the upstream. */
export interface UpstreamRequest {
  readonly call: Pick<Call, 'requestId' | 'key'>;
  readonly method: 'GET' | 'POST';
  /** The path under the upstream's base address, with its leading slash. */
  readonly path: string;
  /** Names and values alternately; all except `X-Request-Id`. */
  readonly headers: readonly string[];
  readonly body?: string | undefined;
  /** When it was last sent, by `performance.now()`. */
  sentAt?: number;
  /** Called when it is the request's turn. Returns why it may not be sent. */
  start(): Error | undefined;
}

export interface UpstreamFailure {
  /**
   * - `unreachable`: there was no connection, or it broke before the response began
   * - `broken`: the response was incomplete or not HTTP
   * - `mismatched`: it was the response to another request
   * - `refused`: the key may not be used any more
   * - `timeout`, `cancelled`: nobody waits any more
   */
  readonly kind: 'unreachable' | 'broken' | 'mismatched' | 'refused' | 'timeout' | 'cancelled';
  readonly error: Error;
  /** Whether the upstream may have received the request. */
  readonly wasSent: boolean;
}

export type Outcome = UpstreamAnswer | UpstreamFailure;

export interface UpstreamClientOptions {
  /** The base address, such as `https://host/v1`. */
  readonly url: string;
  /** The most connections that are open at the same time. */
  readonly connections: number;
  readonly timeoutMs: number;
  /** Called with the status of each response, or why there is none, and the time since `send`. */
  readonly observe?: (method: string, outcome: number | UpstreamFailure['kind'], seconds: number) => void;
}

/** A hundred animals with the longest names, with every character escaped, take a third of this. */
const MAX_BODY_BYTES = 1_048_576;
/** Each chunk costs about a microsecond, however small it is. */
const MAX_CHUNKS = 8_192;
/** The gateway needs only the headers of these answers, so they count even if their bodies are incomplete. */
const REFUSALS = new Set([401, 429]);
/** How undici calls a response that is not proper HTTP, or that has more headers than it reads. */
const NOT_HTTP = new Set(['HTTPParserError', 'HeadersOverflowError', 'ResponseContentLengthMismatchError']);

type Headers = Readonly<Record<string, string | string[] | undefined>>;

export type UpstreamClient = ReturnType<typeof createUpstreamClient>;

/**
 * Creates the client of an upstream. It keeps connections alive, follows no redirects and retries nothing. A key uses at
 * most half of the connections, and while requests wait, the keys take turns.
 */
export function createUpstreamClient({ url, connections, timeoutMs, observe }: UpstreamClientOptions) {
  const { origin, pathname } = new URL(url);
  const basePath = pathname.replace(/\/$/, '');
  const ids = createRequestIds();
  // Callers cancel at their own deadlines.
  const pool = new Pool(origin, { connections, connect: { timeout: timeoutMs }, headersTimeout: 0, bodyTimeout: 0 });
  const mostOfKey = Math.ceil(connections / 2);
  /** The keys with requests. The key whose turn is next comes first. */
  const keys = new Map<string, { active: number; readonly waiting: Set<Exchange> }>();
  let active = 0;

  return {
    /** Sends a request when it is its key's turn. Returns the function that cancels it. */
    send(request: UpstreamRequest, onOutcome: (outcome: Outcome) => void): (reason: Error) => void {
      const id = request.call.key?.id ?? '';
      const key = keys.get(id) ?? { active: 0, waiting: new Set() };
      keys.set(id, key);
      const createdAt = performance.now();
      const finish = (outcome: Outcome): void => {
        const { kind } = outcome;
        const isMeasured = kind === 'answer' || outcome.wasSent || kind === 'unreachable' || kind === 'timeout';
        const result = kind === 'answer' ? outcome.status : kind;
        if (isMeasured) observe?.(request.method, result, (performance.now() - createdAt) / 1_000);
        key.waiting.delete(exchange);
        if (key.active + key.waiting.size === 0) keys.delete(id);
        onOutcome(outcome);
      };
      const release = (): void => {
        active -= 1;
        key.active -= 1;
        if (key.active + key.waiting.size === 0) keys.delete(id);
        startNext();
      };
      const exchange = new Exchange(request, ids, finish, release);
      key.waiting.add(exchange);
      startNext();
      return (reason) => exchange.cancel(reason);
    },
    load: () => ({
      active,
      idle: Math.max(0, pool.stats.connected - active),
      waiting: [...keys.values()].reduce((sum, { waiting }) => sum + waiting.size, 0),
    }),
    close: () => pool.destroy(),
  };

  function startNext(): void {
    // A key that has started a request moves to the end, where the loop comes to it again.
    for (const [id, key] of keys) {
      if (active === connections) return;
      const [exchange] = key.waiting;
      const most = exchange?.request.call.key?.isUnknown ? 1 : mostOfKey;
      if (!exchange || key.active >= most) continue;
      key.waiting.delete(exchange);
      keys.delete(id);
      keys.set(id, key);
      const refusal = exchange.request.start();
      if (refusal) {
        exchange.fail('refused', refusal);
        continue;
      }
      active += 1;
      key.active += 1;
      const { method, path, headers, body = null } = exchange.request;
      const sent = [...headers, 'x-request-id', exchange.id];
      pool.dispatch({ method, path: basePath + path, headers: sent, body }, exchange);
    }
  }
}

/** Sends one request and reads its response. */
class Exchange implements Dispatcher.DispatchHandler {
  readonly id: string;
  #controller: Dispatcher.DispatchController | undefined;
  #isOver = false;
  #wasSent = false;
  #status = 0;
  #headers: Headers = {};
  #body: Buffer = Buffer.alloc(0);
  #size = 0;
  #chunks = 0;

  /** @param onFree - called when its connection can be used again, which may be later than the outcome */
  constructor(
    readonly request: UpstreamRequest,
    private readonly ids: RequestIds,
    private readonly onOutcome: (outcome: Outcome) => void,
    private readonly onFree: () => void,
  ) {
    this.id = ids.create(request.call.requestId);
  }

  cancel(reason: Error): void {
    if (REFUSALS.has(this.#status)) this.#answer(undefined);
    else this.fail(reason instanceof CallCancelled ? 'cancelled' : 'timeout', reason);
    this.#controller?.abort(reason);
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller;
    const refusal = this.request.call.key?.findRefusal();
    if (refusal) this.fail('refused', refusal);
    if (this.#isOver) return controller.abort(new Error('cancelled'));
    this.#wasSent = true;
    this.request.sentAt = performance.now();
  }

  onResponseStart(controller: Dispatcher.DispatchController, status: number, headers: Headers): void {
    const isInformational = status < 200;
    if (isInformational) return;
    if (this.ids.matches(this.id, readHeader(headers, 'x-request-id'), status)) {
      this.#status = status;
      this.#headers = headers;
    } else {
      this.fail('mismatched', notUnderstood('the answer to another request'));
      controller.abort(new Error('the response is not that of the request'));
    }
  }

  /** Copies all chunks but an only one into a buffer that doubles, so that a body costs the same however it is cut. */
  onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void {
    const start = this.#size;
    const body = this.#body;
    this.#size += chunk.length;
    this.#chunks += 1;
    if (this.#size > MAX_BODY_BYTES || this.#chunks > MAX_CHUNKS) {
      this.#answer(undefined);
      return controller.abort(new Error('the response is too large'));
    }
    if (this.#chunks === 1) this.#body = chunk;
    else {
      if (this.#size > body.length) body.copy((this.#body = Buffer.allocUnsafe(2 * this.#size)));
      chunk.copy(this.#body, start);
    }
  }

  onResponseEnd(): void {
    const encoding = readHeader(this.#headers, 'content-encoding')?.toLowerCase() || 'identity';
    const bytes = decode(this.#body.subarray(0, this.#size), encoding, MAX_BODY_BYTES);
    this.#answer(bytes && isUtf8(bytes) ? bytes.toString('utf8') : undefined);
    this.onFree();
  }

  onResponseError(_controller: Dispatcher.DispatchController | undefined, error: Error): void {
    const isBroken = this.#status !== 0 || NOT_HTTP.has(error.name);
    if (REFUSALS.has(this.#status)) this.#answer(undefined);
    // undici's error has what the upstream sent, which may contain the client's key.
    else if (isBroken) this.fail('broken', notUnderstood('incomplete or no HTTP', new Error(error.message)));
    else this.fail('unreachable', unavailable(error));
    this.onFree();
  }

  #answer(body: string | undefined): void {
    const headers = this.#headers;
    this.#end({ kind: 'answer', status: this.#status, body, header: (name) => readHeader(headers, name) });
  }

  fail(kind: UpstreamFailure['kind'], error: Error): void {
    this.#end({ kind, error, wasSent: this.#wasSent });
  }

  /** Only the first outcome counts. */
  #end(outcome: Outcome): void {
    if (!this.#isOver) {
      this.#isOver = true;
      this.onOutcome(outcome);
    }
  }
}

/** undici leaves the white space after a value, which is not part of it. */
function readHeader(headers: Headers, name: string): string | undefined {
  const value = headers[name];
  return (Array.isArray(value) ? value.join(', ') : value)?.trim();
}
