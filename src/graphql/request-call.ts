import type { Exchange } from '../http/exchange.js';
import type { Call } from '../pets/pet-source.js';

/** What the store is asked on behalf of an HTTP request. */
export class RequestCall implements Call {
  constructor(
    private readonly exchange: Exchange,
    readonly key: Call['key'],
  ) {}

  get requestId(): string {
    return this.exchange.requestId;
  }
  get startedAt(): number {
    return this.exchange.startedAt;
  }
  get traceparent(): string | undefined {
    return this.exchange.traceparent;
  }
  get clientName(): string | undefined {
    return this.exchange.clientName;
  }
  get isCancelled(): boolean {
    return this.exchange.isCancelled;
  }
  get signal(): AbortSignal {
    return this.exchange.signal;
  }
}
