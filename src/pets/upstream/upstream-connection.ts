import { isUtf8 } from 'node:buffer';
import type { Client, Dispatcher } from 'undici';
import { UpstreamFailure, type UpstreamAnswer } from './outgoing-request.js';
import type { Sending } from './sending.js';

/** A hundred animals with the longest names, escaped throughout, are a third of this. */
const MAX_ANSWER_BYTES = 1_048_576;

const TOO_MANY_REQUESTS = 429;

type Headers = Readonly<Record<string, string | string[] | undefined>>;
type Controller = Dispatcher.DispatchController;

const NO_HEADERS: Headers = {};

/**
 * A connection to another store, with one request on it at a time, which it follows through undici. What it knows of that
 * request is kept here and not made anew for each. undici tells whose event it is by the controller, which each request has
 * of its own once it has left; an event of a request that was here before is nobody's.
 */
export class UpstreamConnection implements Dispatcher.DispatchHandler {
  #sending: Sending | undefined;
  #controller: Controller | undefined;
  #hasLeft = false;
  #status = 0;
  #headers = NO_HEADERS;
  #chunks: Buffer[] | undefined;
  #size = 0;

  /**
   * @param base - the path before that of each request
   * @param onFree - called when another request may be sent
   */
  constructor(
    private readonly client: Client,
    private readonly base: string,
    private readonly onFree: (connection: UpstreamConnection) => void,
  ) {}

  /** Sends a request. The connection must be free. */
  send(sending: Sending): void {
    this.#sending = sending;
    this.#controller = undefined;
    this.#hasLeft = false;
    this.#status = 0;
    this.#headers = NO_HEADERS;
    this.#chunks = undefined;
    this.#size = 0;
    sending.connection = this;
    const { method, path, headers, body } = sending.request;
    this.client.dispatch({ method, path: this.base + path, headers, body: body ?? null }, this);
  }

  /** Ends the request that is on it before undici does, which will say so once the connection has been closed. */
  abort(outcome: UpstreamAnswer | Error): void {
    this.#sending?.settle(outcome, this.#hasLeft);
    this.#controller?.abort(new Error('cancelled'));
  }

  close(): Promise<void> {
    return this.client.destroy();
  }

  onRequestStart(controller: Controller): void {
    const sending = this.#sending as Sending;
    this.#controller = controller;
    try {
      if (!sending.isSettled) sending.request.beforeLeaving();
    } catch (error) {
      sending.settle(error as Error, false);
    }
    if (sending.isSettled) controller.abort(new Error('cancelled'));
    else this.#hasLeft = true;
  }

  onResponseStart(controller: Controller, status: number, headers: Headers): void {
    if (controller !== this.#controller) return;
    this.#status = status;
    this.#headers = headers;
  }

  onResponseData(controller: Controller, chunk: Buffer): void {
    if (controller !== this.#controller) return;
    this.#size += chunk.length;
    if (this.#size <= MAX_ANSWER_BYTES) (this.#chunks ??= []).push(chunk);
    else this.abort(this.#toAnswer(undefined));
  }

  onResponseEnd(controller: Controller): void {
    if (controller !== this.#controller) return;
    const chunks = this.#chunks ?? [];
    const bytes = chunks.length === 1 ? (chunks[0] as Buffer) : Buffer.concat(chunks);
    this.#end(this.#toAnswer(isUtf8(bytes) ? bytes.toString('utf8') : undefined));
  }

  /** There is no controller yet when no connection could be made. */
  onResponseError(controller: Controller | undefined, error: Error): void {
    if (controller !== this.#controller) return;
    if (this.#status === TOO_MANY_REQUESTS) {
      // What it asks for is in its head.
      this.#end(this.#toAnswer(undefined));
      return;
    }
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

  /** undici has done with the request. */
  #end(outcome: UpstreamAnswer | Error): void {
    const sending = this.#sending;
    if (!sending) return;
    const hasLeft = this.#hasLeft;
    this.#sending = undefined;
    this.onFree(this);
    sending.settle(outcome, hasLeft);
  }
}
