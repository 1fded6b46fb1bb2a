import { StoreError } from '../../errors.js';
import { UpstreamFailure, type OutgoingRequest, type UpstreamAnswer } from './outgoing-request.js';
import type { UpstreamConnection } from './upstream-connection.js';

/**
 * Is told of every request that has ended, unless it never was to leave: the status, or else in one of few words why there is
 * none; and the time since it was sent, the wait for a connection included.
 */
export type ObserveRequest = (method: string, outcome: number | UpstreamFailureKind, seconds: number) => void;

export type UpstreamFailureKind = UpstreamFailure['kind'] | 'timeout' | 'cancelled';

/** A request that waits for a connection, or is on one. */
export class Sending {
  /** The connection that it is on. */
  connection: UpstreamConnection | undefined;
  isSettled = false;
  /** The one that waits behind this one. */
  next: Sending | undefined;
  readonly #startedAt = performance.now();

  constructor(
    readonly request: OutgoingRequest,
    private readonly observe: ObserveRequest | undefined,
  ) {}

  /** Ends it; the store may have got it all the same. */
  cancel(reason: Error): void {
    // The connection may have another request on it by now.
    if (this.isSettled) return;
    if (this.connection) this.connection.abort(reason);
    else this.settle(reason, false);
  }

  /** @param hasLeft - whether it may have reached the store */
  settle(outcome: UpstreamAnswer | Error, hasLeft: boolean): void {
    if (this.isSettled) return;
    this.isSettled = true;
    if (this.observe) this.#report(outcome, hasLeft, this.observe);
    this.request.settle(outcome);
  }

  #report(outcome: UpstreamAnswer | Error, hasLeft: boolean, observe: ObserveRequest): void {
    const seconds = (performance.now() - this.#startedAt) / 1_000;
    const { method } = this.request;
    if (!(outcome instanceof Error)) observe(method, outcome.status, seconds);
    else if (outcome instanceof UpstreamFailure) observe(method, outcome.kind, seconds);
    else if (outcome instanceof StoreError && outcome.code === 'upstream_timeout') observe(method, 'timeout', seconds);
    else if (hasLeft) observe(method, 'cancelled', seconds);
  }
}
