import { isUtf8 } from 'node:buffer';
import { randomBytes } from 'node:crypto';
import { brotliDecompressSync, gunzipSync, inflateRawSync, inflateSync } from 'node:zlib';
import { Pool, type Dispatcher } from 'undici';
import type { StoreError } from '../errors.js';
import { CallCancelled } from '../pets/pet-source.js';
import { notUnderstood, unavailable } from './wire.js';

/** A request to the upstream, in one attempt or several. */
export interface UpstreamRequest {
  /** Identifies the key. Empty for a request without one. */
  readonly keyId: string;
  /** The id of the client's request. */
  readonly requestId: string;
  readonly method: 'GET' | 'POST';
  /** The path under the upstream's base address, with its leading slash. */
  readonly path: string;
  /** Names and values alternately; all except `X-Request-Id`. */
  readonly headers: readonly string[];
  readonly body?: string | undefined;
  /** Called right before an attempt is written to a connection. Returns why it may not be sent. */
  onSend(): StoreError | undefined;
  /** Called once for each attempt. */
  onOutcome(outcome: Outcome): void;
}

/** One attempt. */
export interface Attempt {
  /** Ends it at once. */
  cancel(reason: Error): void;
}

export interface UpstreamAnswer {
  readonly kind: 'answer';
  readonly status: number;
  readonly header: (name: string) => string | undefined;
  /** Undefined if the body is too large, incomplete, encoded in an unknown way or not UTF-8. */
  readonly body: string | undefined;
}

export interface UpstreamFailure {
  /**
   * Why there is no response:
   * - `unreachable`: there was no connection, or it broke before the response began
   * - `broken`: the response was incomplete or not HTTP
   * - `mismatched`: it was the response to another request
   * - `refused`: the key may not be used any more
   * - `timeout` and `cancelled`: nobody waits any more, because time is up or because the client has disconnected
   */
  readonly kind: 'unreachable' | 'broken' | 'mismatched' | 'refused' | 'timeout' | 'cancelled';
  /** The error for the client. */
  readonly error: Error;
  /** Whether the upstream may have received the request. */
  readonly wasSent: boolean;
}

/** How an attempt ended. Failures are values, because many requests run at once and each may fail on its own. */
export type Outcome = UpstreamAnswer | UpstreamFailure;

/** A hundred animals with the longest names, with every character escaped, take a third of this. */
const MAX_BODY_BYTES = 1_048_576;
/** Each chunk costs about a microsecond, however small it is. */
const MAX_CHUNKS = 65_536;
/** The gateway needs only the headers of these answers, so they count even if their bodies are incomplete. */
const REFUSALS = new Set([401, 429]);
/** How undici calls a response that is not proper HTTP, or that has more headers than it reads. */
const NOT_HTTP = new Set(['HTTPParserError', 'HeadersOverflowError', 'ResponseContentLengthMismatchError']);

type Headers = Readonly<Record<string, string | string[] | undefined>>;

export type UpstreamClient = ReturnType<typeof createUpstreamClient>;

/**
 * Creates the client of an upstream. It keeps connections alive, follows no redirects and retries nothing. A key uses at
 * most half of the connections. While requests wait, the keys take turns.
 */
export function createUpstreamClient(options: {
  /** The base address, such as `https://host/v1`. */
  readonly url: string;
  /** The most connections that are open at the same time. */
  readonly connections: number;
  readonly connectTimeoutMs: number;
  /**
   * Called for every attempt that was sent or should have been sent.
   * @param outcome - the status, or why there is none
   * @param seconds - the time of the attempt, including the wait for a connection
   */
  readonly observe?: (method: string, outcome: number | UpstreamFailure['kind'], seconds: number) => void;
}) {
  const { url, connections, connectTimeoutMs, observe } = options;
  const { origin, pathname } = new URL(url);
  const basePath = pathname.replace(/\/$/, '');
  const ids = createRequestIds();
  // No timeouts here: callers cancel at their own deadlines.
  const pool = new Pool(origin, { connections, connect: { timeout: connectTimeoutMs }, headersTimeout: 0, bodyTimeout: 0 });
  const mostOfKey = Math.ceil(connections / 2);
  /** The waiting attempts of each key, the oldest first. The key whose turn is next comes first. */
  const lines = new Map<string, Set<Exchange>>();
  /** The connections that each key uses. */
  const used = new Map<string, number>();
  let active = 0;

  return {
    /** Sends a request when it is its key's turn. */
    send(request: UpstreamRequest): Attempt {
      const exchange = new Exchange(request, ids, finish);
      const { keyId } = request;
      const line = lines.get(keyId);
      if (line) line.add(exchange);
      else if (mayStart(keyId)) start(exchange);
      else lines.set(keyId, new Set([exchange]));
      return exchange;
    },
    load: () => ({
      active,
      idle: Math.max(0, pool.stats.connected - active),
      waiting: [...lines.values()].reduce((sum, line) => sum + line.size, 0),
    }),
    close: () => pool.destroy(),
  };

  function mayStart(keyId: string): boolean {
    return active < connections && (used.get(keyId) ?? 0) < mostOfKey;
  }

  function start(exchange: Exchange): void {
    const { request } = exchange;
    const { keyId, method, path, body = null } = request;
    active += 1;
    used.set(keyId, (used.get(keyId) ?? 0) + 1);
    exchange.isStarted = true;
    const headers = [...request.headers, 'x-request-id', exchange.id];
    pool.dispatch({ method, path: basePath + path, headers, body }, exchange);
  }

  /** @param outcome - of an attempt that has ended, or undefined if its connection is free only now */
  function finish(exchange: Exchange, outcome: Outcome | undefined, isFree: boolean): void {
    const { request, createdAt } = exchange;
    const { keyId, method } = request;
    if (outcome) {
      const { kind } = outcome;
      const isMeasured = kind === 'answer' || (kind !== 'refused' && (kind !== 'cancelled' || outcome.wasSent));
      if (isMeasured) {
        observe?.(method, kind === 'answer' ? outcome.status : kind, (performance.now() - createdAt) / 1_000);
      }
      request.onOutcome(outcome);
    }
    if (!exchange.isStarted) {
      const line = lines.get(keyId);
      if (line?.delete(exchange) && line.size === 0) lines.delete(keyId);
    } else if (isFree) {
      const left = (used.get(keyId) ?? 0) - 1;
      if (left > 0) used.set(keyId, left);
      else used.delete(keyId);
      active -= 1;
      startNext();
    }
  }

  function startNext(): void {
    // The loop comes to a key again if it has more requests, because its line is then added at the end.
    for (const [keyId, line] of lines) {
      if (active === connections) return;
      if (!mayStart(keyId)) continue;
      lines.delete(keyId);
      const [exchange] = line;
      if (!exchange) continue;
      line.delete(exchange);
      if (line.size > 0) lines.set(keyId, line);
      start(exchange);
    }
  }
}

/** Sends one request and reads its response. */
class Exchange implements Attempt, Dispatcher.DispatchHandler {
  readonly id: string;
  readonly createdAt = performance.now();
  isStarted = false;
  #controller: Dispatcher.DispatchController | undefined;
  #isOver = false;
  #wasSent = false;
  #status = 0;
  #headers: Headers = {};
  #body: Buffer | undefined;
  #size = 0;
  #chunks = 0;

  /** @param onEnd - called with the outcome, and when the connection is free: both at once or one after the other */
  constructor(
    readonly request: UpstreamRequest,
    private readonly ids: RequestIds,
    private readonly onEnd: (exchange: Exchange, outcome: Outcome | undefined, isFree: boolean) => void,
  ) {
    this.id = ids.create(request.requestId);
  }

  cancel(reason: Error): void {
    if (this.#isOver) return;
    const kind = reason instanceof CallCancelled ? 'cancelled' : 'timeout';
    if (REFUSALS.has(this.#status)) this.#answer(undefined, false);
    else this.#fail(kind, reason, false);
    this.#controller?.abort(reason);
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller;
    const refusal = this.#isOver ? undefined : this.request.onSend();
    if (refusal) this.#fail('refused', refusal, false);
    if (this.#isOver) controller.abort(new Error('cancelled'));
    else this.#wasSent = true;
  }

  onResponseStart(controller: Dispatcher.DispatchController, status: number, headers: Headers): void {
    const isInformational = status < 200;
    if (isInformational) return;
    if (!this.ids.matches(this.id, readHeader(headers, 'x-request-id'), status)) {
      const error = new Error('the response is not that of the request');
      this.#fail('mismatched', notUnderstood('the answer to another request', error), false);
      controller.abort(error);
      return;
    }
    this.#status = status;
    this.#headers = headers;
  }

  onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void {
    const start = this.#size;
    this.#size += chunk.length;
    this.#chunks += 1;
    if (this.#size > MAX_BODY_BYTES || this.#chunks > MAX_CHUNKS) {
      this.#answer(undefined, false);
      controller.abort(new Error('the response is too large'));
    } else if (start === 0) this.#body = chunk;
    else this.#append(chunk, start);
  }

  onResponseEnd(): void {
    this.#answer(this.#decode(), true);
  }

  onResponseError(_controller: Dispatcher.DispatchController | undefined, error: Error): void {
    const isBroken = this.#status !== 0 || NOT_HTTP.has(error.name) || error.message === 'bad upgrade';
    if (REFUSALS.has(this.#status)) this.#answer(undefined, true);
    // undici's error has what the upstream sent, which may contain the client's key.
    else if (isBroken) this.#fail('broken', notUnderstood('incomplete or no HTTP', new Error(error.message)), true);
    else this.#fail('unreachable', unavailable(error), true);
  }

  /** Copies a chunk into a buffer that doubles, so that a body costs the same however it is cut. */
  #append(chunk: Buffer, start: number): void {
    let body = this.#body as Buffer;
    if (start === body.length || this.#size > body.length) {
      const larger = Buffer.allocUnsafe(Math.max(1_024, 2 * this.#size));
      body.copy(larger, 0, 0, start);
      this.#body = body = larger;
    }
    chunk.copy(body, start);
  }

  #decode(): string | undefined {
    const body = this.#body?.subarray(0, this.#size) ?? Buffer.alloc(0);
    const encoding = readHeader(this.#headers, 'content-encoding')?.toLowerCase();
    const bytes = encoding === undefined || encoding === 'identity' ? body : decompress(body, encoding);
    return bytes && isUtf8(bytes) ? bytes.toString('utf8') : undefined;
  }

  #answer(body: string | undefined, isFree: boolean): void {
    const headers = this.#headers;
    const header = (name: string): string | undefined => readHeader(headers, name);
    this.#end({ kind: 'answer', status: this.#status, body, header }, isFree);
  }

  #fail(kind: UpstreamFailure['kind'], error: Error, isFree: boolean): void {
    this.#end({ kind, error, wasSent: this.#wasSent }, isFree);
  }

  /** Only the first outcome counts. */
  #end(outcome: Outcome, isFree: boolean): void {
    const isFirst = !this.#isOver;
    this.#isOver = true;
    this.onEnd(this, isFirst ? outcome : undefined, isFree);
  }
}

/** Decompresses the body of an upstream that encodes it although it was not asked to. Undefined if that is impossible. */
function decompress(body: Buffer, encoding: string): Buffer | undefined {
  const limit = { maxOutputLength: MAX_BODY_BYTES };
  try {
    if (encoding === 'gzip' || encoding === 'x-gzip') return gunzipSync(body, limit);
    if (encoding === 'br') return brotliDecompressSync(body, limit);
    if (encoding !== 'deflate') return undefined;
    // The lower half of the first byte is 8 in the zlib format. Some servers send the raw format.
    return ((body[0] ?? 0) & 0x0f) === 8 ? inflateSync(body, limit) : inflateRawSync(body, limit);
  } catch {
    return undefined;
  }
}

/**
 * White space around a value is not part of it, but undici leaves it at the end.
 * https://www.rfc-editor.org/rfc/rfc9110#section-5.5
 */
function readHeader(headers: Headers, name: string): string | undefined {
  const value = headers[name];
  return (Array.isArray(value) ? value.join(', ') : value)?.trim();
}

type RequestIds = ReturnType<typeof createRequestIds>;

/** Stores accept ids of up to 128 characters, and the part that is added here takes about 20. */
const MAX_CLIENT_ID = 100;

/** Creates the ids of requests to an upstream, which tell whether a response belongs to its request. */
function createRequestIds() {
  // A client chooses its request ids and may use one twice, so they do not tell its requests apart.
  const tag = `.${randomBytes(6).toString('base64url')}.`;
  let count = 0;
  let isReturned = false;
  let isReturnedWithRefusals = false;
  return {
    /** Creates an id that no other request has. It begins with the id of the client's request. */
    create(requestId: string): string {
      count += 1;
      return requestId.slice(0, MAX_CLIENT_ID) + tag + count.toString(36);
    },
    /** Whether a response may belong to the request with this id. */
    matches(id: string, returned: string | undefined, status: number): boolean {
      if (returned === id || returned?.split(', ').includes(id)) {
        isReturned = true;
        if (status >= 400) isReturnedWithRefusals = true;
        return true;
      }
      // A load balancer in front of the upstream may add refusals without the id.
      if (returned === undefined) return !(status < 400 ? isReturned : isReturnedWithRefusals) || status >= 500;
      // An upstream may have ids of its own. It then never returns the id of another request.
      return !isReturned && !returned.includes(tag);
    },
  };
}
