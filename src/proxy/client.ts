import { isUtf8 } from 'node:buffer';
import { randomBytes } from 'node:crypto';
import { brotliDecompressSync, gunzipSync, inflateRawSync, inflateSync } from 'node:zlib';
import { Pool, type Dispatcher } from 'undici';
import { CallCancelled, type Call } from '../pets/pet-source.js';
import { notUnderstood, unavailable } from './wire.js';

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
   * - `timeout`, `cancelled`: nobody waits any more, because time is up or the client has disconnected
   */
  readonly kind: 'unreachable' | 'broken' | 'mismatched' | 'refused' | 'timeout' | 'cancelled';
  /** The error for the client. */
  readonly error: Error;
  /** Whether the upstream may have received the request. */
  readonly wasSent: boolean;
}

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
 * most half of the connections, and while requests wait, the keys take turns.
 */
export function createUpstreamClient(options: {
  /** The base address, such as `https://host/v1`. */
  readonly url: string;
  /** The most connections that are open at the same time. */
  readonly connections: number;
  readonly timeoutMs: number;
  /**
   * Called for every request that was sent or should have been sent.
   * @param outcome - the status, or why there is none
   * @param seconds - including the wait for a connection
   */
  readonly observe?: (method: string, outcome: number | UpstreamFailure['kind'], seconds: number) => void;
}) {
  const { url, connections, timeoutMs, observe } = options;
  const { origin, pathname } = new URL(url);
  const basePath = pathname.replace(/\/$/, '');
  const ids = createRequestIds();
  // Callers cancel at their own deadlines.
  const pool = new Pool(origin, { connections, connect: { timeout: timeoutMs }, headersTimeout: 0, bodyTimeout: 0 });
  const mostOfKey = Math.ceil(connections / 2);
  /** The waiting requests of each key, the oldest first. The key whose turn is next comes first. */
  const lines = new Map<string, Set<Exchange>>();
  /** The connections that each key uses. */
  const used = new Map<string, number>();
  let active = 0;

  return {
    /**
     * Sends a request when it is its key's turn.
     * @returns the function that cancels it
     */
    send(request: UpstreamRequest, onOutcome: (outcome: Outcome) => void): (reason: Error) => void {
      const keyId = request.call.key?.id ?? '';
      const createdAt = performance.now();
      const exchange = new Exchange(request, ids, finish, release);
      const line = lines.get(keyId);
      if (line) line.add(exchange);
      else if (mayStart(keyId)) start(keyId, exchange);
      else lines.set(keyId, new Set([exchange]));
      return (reason) => exchange.cancel(reason);

      function finish(outcome: Outcome): void {
        const { kind } = outcome;
        if (kind === 'answer') observe?.(request.method, outcome.status, (performance.now() - createdAt) / 1_000);
        else if (kind !== 'refused' && (kind !== 'cancelled' || outcome.wasSent))
          observe?.(request.method, kind, (performance.now() - createdAt) / 1_000);
        const waiting = lines.get(keyId);
        if (waiting?.delete(exchange) && waiting.size === 0) lines.delete(keyId);
        onOutcome(outcome);
      }

      function release(): void {
        active -= 1;
        const left = (used.get(keyId) ?? 0) - 1;
        if (left > 0) used.set(keyId, left);
        else used.delete(keyId);
        startNext();
      }
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

  function start(keyId: string, exchange: Exchange): void {
    active += 1;
    used.set(keyId, (used.get(keyId) ?? 0) + 1);
    const { method, path, headers, body = null } = exchange.request;
    const sent = [...headers, 'x-request-id', exchange.id];
    pool.dispatch({ method, path: basePath + path, headers: sent, body }, exchange);
  }

  function startNext(): void {
    // The loop comes to a key again if it has more requests, because its line is then added at the end.
    for (const [keyId, line] of lines) {
      const [exchange] = line;
      if (!exchange || !mayStart(keyId)) continue;
      line.delete(exchange);
      lines.delete(keyId);
      if (line.size > 0) lines.set(keyId, line);
      start(keyId, exchange);
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
  #body: Buffer | undefined;
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
    else this.#fail(reason instanceof CallCancelled ? 'cancelled' : 'timeout', reason);
    this.#controller?.abort(reason);
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller;
    const refusal = this.request.call.key?.findRefusal();
    if (refusal) this.#fail('refused', refusal);
    if (this.#isOver) return controller.abort(new Error('cancelled'));
    this.#wasSent = true;
    this.request.sentAt = performance.now();
  }

  onResponseStart(controller: Dispatcher.DispatchController, status: number, headers: Headers): void {
    const isInformational = status < 200;
    if (isInformational) return;
    if (!this.ids.matches(this.id, readHeader(headers, 'x-request-id'), status)) {
      this.#fail('mismatched', notUnderstood('the answer to another request'));
      return controller.abort(new Error('the response is not that of the request'));
    }
    this.#status = status;
    this.#headers = headers;
  }

  onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void {
    const start = this.#size;
    this.#size += chunk.length;
    this.#chunks += 1;
    if (this.#size > MAX_BODY_BYTES || this.#chunks > MAX_CHUNKS) {
      this.#answer(undefined);
      controller.abort(new Error('the response is too large'));
    } else if (start === 0) this.#body = chunk;
    else this.#append(chunk, start);
  }

  onResponseEnd(): void {
    this.#answer(this.#decode());
    this.onFree();
  }

  onResponseError(_controller: Dispatcher.DispatchController | undefined, error: Error): void {
    const isBroken = this.#status !== 0 || NOT_HTTP.has(error.name);
    if (REFUSALS.has(this.#status)) this.#answer(undefined);
    // undici's error has what the upstream sent, which may contain the client's key.
    else if (isBroken) this.#fail('broken', notUnderstood('incomplete or no HTTP', new Error(error.message)));
    else this.#fail('unreachable', unavailable(error));
    this.onFree();
  }

  /** Copies a chunk into a buffer that doubles, so that a body costs the same however it is cut. */
  #append(chunk: Buffer, start: number): void {
    let body = this.#body as Buffer;
    if (this.#chunks === 2 || this.#size > body.length) {
      body = Buffer.allocUnsafe(Math.max(1_024, 2 * this.#size));
      (this.#body as Buffer).copy(body, 0, 0, start);
      this.#body = body;
    }
    chunk.copy(body, start);
  }

  #decode(): string | undefined {
    const body = this.#body?.subarray(0, this.#size) ?? Buffer.alloc(0);
    const encoding = readHeader(this.#headers, 'content-encoding')?.toLowerCase() || 'identity';
    const bytes = encoding === 'identity' ? body : decompress(body, encoding);
    return bytes && isUtf8(bytes) ? bytes.toString('utf8') : undefined;
  }

  #answer(body: string | undefined): void {
    const headers = this.#headers;
    this.#end({ kind: 'answer', status: this.#status, body, header: (name) => readHeader(headers, name) });
  }

  #fail(kind: UpstreamFailure['kind'], error: Error): void {
    this.#end({ kind, error, wasSent: this.#wasSent });
  }

  /** Only the first outcome counts. */
  #end(outcome: Outcome): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.onOutcome(outcome);
  }
}

/** Decompresses the body of an upstream that encodes it although it was not asked to. */
function decompress(body: Buffer, encoding: string): Buffer | undefined {
  const limit = { maxOutputLength: MAX_BODY_BYTES };
  try {
    if (encoding === 'gzip' || encoding === 'x-gzip') return gunzipSync(body, limit);
    if (encoding === 'br') return brotliDecompressSync(body, limit);
    if (encoding !== 'deflate') return undefined;
    // The zlib format has an 8 in the first byte. Some servers send the raw format.
    return ((body[0] ?? 0) & 0x0f) === 8 ? inflateSync(body, limit) : inflateRawSync(body, limit);
  } catch {
    return undefined;
  }
}

/** undici leaves the white space after a value, which is not part of it. */
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
