import type { Exchange } from '../http/exchange.js';
import type { Span } from '../observability/tracing.js';
import type { Call } from '../pets/pet-source.js';

/** What the store is asked on behalf of an HTTP request. */
export class RequestCall implements Call {
  constructor(
    private readonly exchange: Exchange,
    readonly key: Call['key'],
    readonly span: Span,
  ) {}

  get requestId(): string {
    return this.exchange.requestId;
  }
  get startedAt(): number {
    return this.exchange.startedAt;
  }
  get clientName(): string | undefined {
    return this.exchange.clientName;
  }
  get isCancelled(): boolean {
    return this.exchange.isCancelled;
  }
  onCancel(listener: () => void): void {
    this.exchange.onCancel(listener);
  }
  offCancel(listener: () => void): void {
    this.exchange.offCancel(listener);
  }
}
