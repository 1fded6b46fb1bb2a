import { randomUUID } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { MaybePromise } from '../access/maybe-promise.js';
import type { WindowState } from '../access/ledger.js';
import { createRequestFields } from '../observability/log.js';
import { CLIENT_NAME_HEADER, parseClientName } from '../access/client-name.js';
import { NO_SPAN, type Span } from '../observability/tracing.js';
import type { ClientAddress } from './client-address.js';

export interface Reply {
  readonly status: number;
  readonly headers: Record<string, string>;
  readonly body: string | Uint8Array;
  /** The caller's windows, for the limit headers. Absent if nothing is counted or the limits are unknown. */
  readonly windows?: readonly WindowState[] | undefined;
}

const REQUEST_ID = /^[\w.:-]{1,128}$/;

/** One HTTP request and the state that its handlers share. */
export class RequestContext {
  readonly method: string;
  /** The path without a trailing slash, which makes no difference. */
  readonly path: string;
  /** With its question mark, or empty. */
  readonly search: string;
  readonly requestId: string;
  readonly startedAt = performance.now();
  /** What handlers add to the log line of this request. */
  readonly logged = createRequestFields();
  /** The name of the route for metrics. Never the client's path, because that could have any value. */
  route = 'other';
  /** Who pays for new documents: the key, once it is known to be valid, otherwise the client's address. */
  caller = 'unknown';
  /**
   * Waits for the caller's turn, before work that takes the event loop a while. The scheduler replaces it.
   * @param isLong - the work may take long: connections are looked at first, even if nobody else waits
   */
  takeTurn: (isLong?: boolean) => MaybePromise<void> = () => undefined;
  /** Charges the caller for work outside of its turns, in milliseconds. The scheduler replaces it. */
  charge: (milliseconds: number) => void = () => undefined;
  /** Tells the scheduler that the key is valid. */
  identify: (keyId: string) => void = () => undefined;
  /** If tracing is off, it records nothing and only carries the client's trace. */
  span: Span = NO_SPAN;
  #cancelListeners: Set<() => void> | undefined;

  constructor(
    readonly request: IncomingMessage,
    readonly response: ServerResponse,
    readonly client: ClientAddress,
  ) {
    const url = toOriginForm(request.url ?? '/');
    const mark = url.indexOf('?');
    const path = mark < 0 ? url : url.slice(0, mark);
    this.method = request.method ?? 'GET';
    this.path = path.length > 1 && path.endsWith('/') ? path.slice(0, -1) : path;
    this.search = mark < 0 ? '' : url.slice(mark);
    const sent = this.header('x-request-id');
    this.requestId = sent !== undefined && REQUEST_ID.test(sent) ? sent : randomUUID();
  }

  header(name: string): string | undefined {
    const value = this.request.headers[name];
    return Array.isArray(value) ? value.join(', ') : value;
  }

  get clientName(): string | undefined {
    return parseClientName(this.header(CLIENT_NAME_HEADER), this.header('authorization'));
  }

  /** Whether the client disconnected before its response was complete. */
  get isCancelled(): boolean {
    return this.response.destroyed && !this.response.writableFinished;
  }

  /** Calls a listener if the client disconnects from now on, before its response is complete. */
  onCancel(listener: () => void): void {
    this.#cancelListeners ??= this.#watchClose();
    this.#cancelListeners.add(listener);
  }

  offCancel(listener: () => void): void {
    this.#cancelListeners?.delete(listener);
  }

  #watchClose(): Set<() => void> {
    const listeners = new Set<() => void>();
    this.response.on('close', () => {
      if (this.response.writableFinished) return;
      for (const listener of listeners) listener();
    });
    return listeners;
  }
}

/** A request line may contain the complete URL: https://www.rfc-editor.org/rfc/rfc9112#section-3.2.2 */
function toOriginForm(target: string): string {
  if (target.startsWith('/') || !URL.canParse(target)) return target;
  const { pathname, search } = new URL(target);
  return pathname + search;
}
