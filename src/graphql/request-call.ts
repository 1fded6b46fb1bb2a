import type { MaybePromise } from '../access/maybe-promise.js';
import type { RequestContext } from '../http/request-context.js';
import type { Span } from '../observability/tracing.js';
import type { Call } from '../pets/pet-source.js';

/**
 * What the store is asked on behalf of an HTTP request. A class, because V8 takes over a microsecond for an object
 * literal with getters.
 */
export class RequestCall implements Call {
  constructor(
    private readonly context: RequestContext,
    readonly key: Call['key'],
    readonly span: Span,
  ) {}

  get requestId(): string {
    return this.context.requestId;
  }
  get startedAt(): number {
    return this.context.startedAt;
  }
  get clientName(): string | undefined {
    return this.context.clientName;
  }
  get isCancelled(): boolean {
    return this.context.isCancelled;
  }
  onCancel(listener: () => void): void {
    this.context.onCancel(listener);
  }
  offCancel(listener: () => void): void {
    this.context.offCancel(listener);
  }
  charge(milliseconds: number): void {
    this.context.charge(milliseconds);
  }
  takeTurn(): MaybePromise<void> {
    return this.context.takeTurn(true);
  }
}
