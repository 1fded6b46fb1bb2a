import type { Dispatcher } from 'undici';
import type { RequestIds } from './request-ids.js';
import { MAX_BODY_BYTES, notUnderstood, readBody, unavailable, type UpstreamAnswer } from './wire.js';

/** No connection, not complete HTTP, the response to another request, or nobody who still waits. */
export type Failure = 'unreachable' | 'broken' | 'mismatched' | 'timeout' | 'cancelled';

/** Who learns how an exchange ends: by `succeed` or `fail`, and then `release`. */
interface Sender {
  mayBeSent(): boolean;
  succeed(answer: Exchange): void;
  fail(failure: Failure, error: Error, wasSent: boolean): void;
  /** The connection can be used again. */
  release(): void;
}

/** Each chunk of a response costs about a microsecond, however small it is. */
const MAX_CHUNKS = 65_536;
/** Each chunk that is kept costs a hundred bytes and more. */
const MAX_CHUNKS_KEPT = 1_024;
/** These answers count even if their bodies are incomplete. */
export const REFUSALS: ReadonlySet<number> = new Set([401, 429]);
/** undici's names of errors in a response. */
const NOT_HTTP = new Set(['HTTPParserError', 'HeadersOverflowError', 'ResponseContentLengthMismatchError']);

type Headers = Readonly<Record<string, string | string[] | undefined>>;

/** One attempt to send a request, and its answer. */
export class Exchange implements Dispatcher.DispatchHandler, UpstreamAnswer {
  isOpen = true;
  /** By `performance.now()`; 0 before. */
  sentAt = 0;
  status = 0;
  body: string | undefined;
  #controller: Dispatcher.DispatchController | undefined;
  #headers: Headers = {};
  #chunks: Buffer[] = [];
  /** In chunks. */
  #received = 0;
  #size = 0;

  constructor(
    readonly requestId: string,
    private readonly ids: RequestIds,
    private readonly sender: Sender,
  ) {}

  header(name: string): string | undefined {
    const value = this.#headers[name];
    // undici leaves the white space after a value, which is not part of it.
    return (Array.isArray(value) ? value.join(', ') : value)?.trim();
  }

  cancel(failure: Failure, reason: Error): void {
    this.#fail(failure, reason);
    this.#controller?.abort(reason);
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.isOpen &&= this.sender.mayBeSent();
    if (!this.isOpen) return controller.abort(new Error('cancelled'));
    this.#controller = controller;
    this.sentAt = performance.now();
  }

  onResponseStart(_: unknown, status: number, headers: Headers): void {
    const isInformational = status < 200;
    if (isInformational) return;
    this.#headers = headers;
    if (this.ids.match(this.requestId, this.header('x-request-id'), status)) this.status = status;
    else this.cancel('mismatched', notUnderstood('the answer to another request'));
  }

  onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void {
    this.#size += chunk.length;
    this.#received += 1;
    if (this.#chunks.push(chunk) > MAX_CHUNKS_KEPT) this.#chunks = [Buffer.concat(this.#chunks)];
    if (this.#received <= MAX_CHUNKS && this.#size <= MAX_BODY_BYTES) return;
    this.#succeed(undefined);
    controller.abort(new Error('the response is too large'));
  }

  onResponseEnd(): void {
    this.#succeed(readBody(this.#chunks, this.header('content-encoding')));
    this.sender.release();
  }

  onResponseError(_: unknown, error: Error): void {
    const isBroken = this.status !== 0 || NOT_HTTP.has(error.name);
    // undici's error has what the upstream sent, which may contain the client's key.
    if (isBroken) this.#fail('broken', notUnderstood('incomplete or no HTTP', new Error(error.message)));
    else this.#fail('unreachable', unavailable(error));
    this.sender.release();
  }

  #succeed(body: string | undefined): void {
    if (!this.isOpen) return;
    this.isOpen = false;
    this.body = body;
    this.sender.succeed(this);
  }

  #fail(failure: Failure, error: Error): void {
    if (REFUSALS.has(this.status)) return this.#succeed(undefined);
    if (!this.isOpen) return;
    this.isOpen = false;
    this.sender.fail(failure, error, this.sentAt > 0);
  }
}
