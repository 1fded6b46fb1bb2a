import { isUtf8 } from 'node:buffer';
import { randomBytes } from 'node:crypto';
import type { Client, Dispatcher } from 'undici';
import { CallCancelled, type Call } from '../pets/pet-source.js';
import { notUnderstood, unavailable } from './wire.js';

/** A request to the upstream. */
export interface UpstreamRequest {
  /** The client's request. Its key is asked again right before a request is written to a connection. */
  readonly call: Pick<Call, 'requestId' | 'key'>;
  readonly method: 'GET' | 'POST';
  /** The path under the upstream's base address, with its leading slash. */
  readonly path: string;
  /** All headers except `X-Request-Id`. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string | undefined;
  /** When the request was last sent, by `performance.now()`. */
  sentAt?: number | undefined;
  /** Ends the request at once, if it is on its way. Returns whether the upstream may have received it. */
  progress?: { cancel(reason: Error): boolean } | undefined;
}

export interface UpstreamAnswer {
  readonly kind: 'answer';
  readonly status: number;
  readonly header: (name: string) => string | undefined;
  /** Undefined if the body is too large, incomplete or not UTF-8. */
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

/** How a request ended. Failures are values, because many requests run at once and each may fail on its own. */
export type Outcome = UpstreamAnswer | UpstreamFailure;

/** How undici calls a response that is not proper HTTP, or that has more headers than it reads. */
const NOT_HTTP = new Set(['HTTPParserError', 'HeadersOverflowError', 'ResponseContentLengthMismatchError']);

/** A hundred animals with the longest names, with every character escaped, take a third of this. */
const MAX_ANSWER_BYTES = 1_048_576;

/** The gateway needs only the headers of these answers, so they count even if their bodies are incomplete. */
const REFUSALS = new Set([401, 429]);

type Headers = Readonly<Record<string, string | string[] | undefined>>;

/**
 * Sends a request on a connection.
 * @param path - with the path of the base address
 * @param onDone - called when the connection has no request any more, which may be after the outcome of a cancelled one
 */
export function exchange(
  client: Client,
  path: string,
  request: UpstreamRequest,
  ids: RequestIds,
  onDone: () => void,
): Promise<Outcome> {
  const { call, method, body = null } = request;
  const id = ids.create(call.requestId);
  const headers = { ...request.headers, 'x-request-id': id };
  return new Promise((resolve) => {
    const handler = new ExchangeHandler(request, ids, id, resolve, onDone);
    request.progress = handler;
    client.dispatch({ method, path, headers, body }, handler);
  });
}

/** Reads the response. It is a class, because a literal's methods are new functions for each request. */
class ExchangeHandler implements Dispatcher.DispatchHandler {
  #controller: Dispatcher.DispatchController | undefined;
  #isOver = false;
  #wasSent = false;
  #status = 0;
  #headers: Headers | undefined;
  #chunks: Buffer[] | undefined;
  #size = 0;

  constructor(
    private readonly request: UpstreamRequest,
    private readonly ids: RequestIds,
    private readonly id: string,
    private readonly resolve: (outcome: Outcome) => void,
    private readonly onDone: () => void,
  ) {}

  cancel(reason: Error): boolean {
    if (REFUSALS.has(this.#status)) this.#answer(undefined);
    else this.#end(toCancelled(reason, this.#wasSent));
    this.#controller?.abort(reason);
    return this.#wasSent;
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller;
    const error = this.#isOver ? undefined : this.request.call.key?.findRefusal();
    if (error) this.#fail('refused', error);
    if (this.#isOver) return controller.abort(new Error('cancelled'));
    this.#wasSent = true;
    this.request.sentAt = performance.now();
  }

  onResponseStart(controller: Dispatcher.DispatchController, status: number, headers: Headers): void {
    const isInformational = status < 200;
    if (isInformational) return;
    if (!this.ids.matches(this.id, readHeader(headers, 'x-request-id'), status)) {
      const error = new Error('the response is not that of the request');
      this.#fail('mismatched', notUnderstood('the answer to another request', error));
      controller.abort(error);
      return;
    }
    this.#status = status;
    this.#headers = headers;
  }

  onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void {
    this.#size += chunk.length;
    if (this.#size <= MAX_ANSWER_BYTES) (this.#chunks ??= []).push(chunk);
    else {
      this.#answer(undefined);
      controller.abort(new Error('the response is too large'));
    }
  }

  onResponseEnd(): void {
    const chunks = this.#chunks ?? [];
    const bytes = chunks.length === 1 ? (chunks[0] as Buffer) : Buffer.concat(chunks);
    this.#answer(isUtf8(bytes) ? bytes.toString('utf8') : undefined);
    this.onDone();
  }

  onResponseError(_controller: Dispatcher.DispatchController | undefined, error: Error): void {
    const isBroken = this.#status !== 0 || NOT_HTTP.has(error.name) || error.message === 'bad upgrade';
    if (REFUSALS.has(this.#status)) this.#answer(undefined);
    // undici's error has what the upstream sent, which may contain the client's key.
    else if (isBroken) this.#fail('broken', notUnderstood('incomplete or no HTTP', new Error(error.message)));
    else this.#fail('unreachable', unavailable(error));
    this.onDone();
  }

  #answer(body: string | undefined): void {
    const headers = this.#headers ?? {};
    this.#end({ kind: 'answer', status: this.#status, body, header: (name) => readHeader(headers, name) });
  }

  #fail(kind: UpstreamFailure['kind'], error: Error): void {
    this.#end({ kind, error, wasSent: this.#wasSent });
  }

  /** Only the first outcome counts. */
  #end(outcome: Outcome): void {
    this.#isOver = true;
    this.resolve(outcome);
  }
}

export function toCancelled(reason: Error, wasSent: boolean): UpstreamFailure {
  return { kind: reason instanceof CallCancelled ? 'cancelled' : 'timeout', error: reason, wasSent };
}

/**
 * White space around a value is not part of it, but undici leaves it at the end.
 * https://www.rfc-editor.org/rfc/rfc9110#section-5.5
 */
function readHeader(headers: Headers, name: string): string | undefined {
  const value = headers[name];
  return (Array.isArray(value) ? value.join(', ') : value)?.trim();
}

type RequestIds = Pick<ReturnType<typeof createRequestIds>, 'create' | 'matches'>;

/** Stores accept ids of up to 128 characters, and the part that is added here takes about 20. */
const MAX_CLIENT_ID = 100;

/** Creates the ids of requests to an upstream, which tell whether a response belongs to its request. */
export function createRequestIds() {
  // A client chooses its request ids and may use one twice, so they do not tell its requests apart.
  const tag = `.${randomBytes(6).toString('base64url')}.`;
  let count = 0;
  let isReturned = false;
  let isReturnedWithRefusals = false;
  return {
    /** Whether the upstream has returned the id of a request. */
    get isReturned() {
      return isReturned;
    },
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
