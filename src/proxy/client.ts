import { Pool, type Dispatcher } from 'undici';
import { CallCancelled, type Call } from '../pets/pet-source.js';
import { createRequestIds, type RequestIds } from './request-ids.js';
import { MAX_BODY_BYTES, notUnderstood, readBody, unavailable, type UpstreamAnswer } from './wire.js';

/** A request to the upstream, which may take several attempts. */
export interface UpstreamRequest {
  readonly call: Pick<Call, 'requestId' | 'key'>;
  /** The path under the upstream's base address, with its leading slash. */
  readonly path: string;
  readonly template: {
    readonly method: 'GET' | 'POST';
    /** Names and values alternately; all except `X-Request-Id`. */
    readonly headers: readonly string[];
    readonly body?: string | undefined;
  };
  /** When it was last sent, by `performance.now()`. */
  sentAt?: number;
  /** Called when it is the request's turn. Returns why it may not be sent. */
  start(): Error | undefined;
  /** Called once for each attempt. */
  conclude(outcome: Outcome): void;
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

/** Each chunk of a response costs about a microsecond, however small it is. */
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
  const keys = new Map<string, KeyQueue>();
  let active = 0;

  return {
    /** Sends a request when it is its key's turn. Returns its attempt, which can be cancelled. */
    send(request: UpstreamRequest): Attempt {
      const id = request.call.key?.id ?? '';
      const key = keys.get(id) ?? { active: 0, waiting: new Set() };
      const attempt = new Attempt(request, ids, key, release, observe);
      key.waiting.add(attempt);
      keys.set(id, key);
      startNext();
      return attempt;
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
      const [attempt] = key.waiting;
      if (!attempt && key.active === 0) keys.delete(id);
      if (!attempt || key.active >= (attempt.request.call.key?.isUnknown ? 1 : mostOfKey)) continue;
      key.waiting.delete(attempt);
      keys.delete(id);
      keys.set(id, key);
      const { request } = attempt;
      const refusal = request.start();
      if (refusal) {
        attempt.fail('refused', refusal);
        continue;
      }
      active += 1;
      key.active += 1;
      const { method, headers, body = null } = request.template;
      const sent = [...headers, 'x-request-id', attempt.id];
      pool.dispatch({ method, path: basePath + request.path, headers: sent, body }, attempt);
    }
  }

  function release(key: KeyQueue): void {
    active -= 1;
    key.active -= 1;
    startNext();
  }
}

interface KeyQueue {
  active: number;
  readonly waiting: Set<Attempt>;
}

/** Sends a request once and reads the response. */
class Attempt implements Dispatcher.DispatchHandler {
  readonly id: string;
  readonly #createdAt = performance.now();
  #controller: Dispatcher.DispatchController | undefined;
  #isOver = false;
  #wasSent = false;
  #status = 0;
  #headers: Headers = {};
  readonly #chunks: Buffer[] = [];
  #size = 0;

  /** @param release - called when its connection can be used again, which may be later than the outcome */
  constructor(
    readonly request: UpstreamRequest,
    private readonly ids: RequestIds,
    private readonly key: KeyQueue,
    private readonly release: (key: KeyQueue) => void,
    private readonly observe: UpstreamClientOptions['observe'],
  ) {
    this.id = ids.create(request.call.requestId);
  }

  cancel(reason: Error): void {
    this.fail(reason instanceof CallCancelled ? 'cancelled' : 'timeout', reason);
    this.#controller?.abort(reason);
  }

  fail(kind: UpstreamFailure['kind'], error: Error): void {
    if (REFUSALS.has(this.#status)) this.#answer(undefined);
    else this.#end({ kind, error, wasSent: this.#wasSent });
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

  onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void {
    this.#size += chunk.length;
    if (this.#chunks.push(chunk) <= MAX_CHUNKS && this.#size <= MAX_BODY_BYTES) return;
    this.#answer(undefined);
    controller.abort(new Error('the response is too large'));
  }

  onResponseEnd(): void {
    this.#answer(readBody(this.#chunks, readHeader(this.#headers, 'content-encoding')));
    this.release(this.key);
  }

  onResponseError(_controller: Dispatcher.DispatchController | undefined, error: Error): void {
    const isBroken = this.#status !== 0 || NOT_HTTP.has(error.name);
    // undici's error has what the upstream sent, which may contain the client's key.
    if (isBroken) this.fail('broken', notUnderstood('incomplete or no HTTP', new Error(error.message)));
    else this.fail('unreachable', unavailable(error));
    this.release(this.key);
  }

  #answer(body: string | undefined): void {
    const headers = this.#headers;
    this.#end({ kind: 'answer', status: this.#status, body, header: (name) => readHeader(headers, name) });
  }

  /** Only the first outcome counts. */
  #end(outcome: Outcome): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.key.waiting.delete(this);
    const result = outcome.kind === 'answer' ? outcome.status : outcome.kind;
    if (this.#wasSent || result === 'unreachable' || result === 'timeout')
      this.observe?.(this.request.template.method, result, (performance.now() - this.#createdAt) / 1_000);
    this.request.conclude(outcome);
  }
}

/** undici leaves the white space after a value, which is not part of it. */
function readHeader(headers: Headers, name: string): string | undefined {
  const value = headers[name];
  return (Array.isArray(value) ? value.join(', ') : value)?.trim();
}
