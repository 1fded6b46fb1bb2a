import type { Span } from '../observability/tracing.js';
import type { MaybePromise } from './maybe-promise.js';
import type { WindowState } from './ledger.js';
import type { Plan } from './plans.js';
import type { UpstreamKey } from './upstream-key.js';

export interface Allowance {
  /** Undefined for a client address, and if the upstream's numbers match no single plan. */
  readonly plan: Plan | undefined;
  readonly windows: readonly WindowState[];
}

/** Counts admissions and refusals of operations and REST requests. */
export interface AdmissionObserver {
  admitted(plan: Plan | undefined, cost: number): void;
  /** @param reason - the code of the error. `address`: the client's address has received too many 401 responses. */
  refused(plan: Plan | undefined, reason: string): void;
}

/** The caller of one HTTP request, and how many requests that caller has left. GraphQL and REST both use it. */
export interface Session {
  /** Identifies the key that was sent. Undefined if that key is known to be invalid. Never the key itself. */
  readonly keyId: string | undefined;
  /** True if the request has a bearer key that is not valid. */
  readonly isKeyRefused: boolean;
  /** True if the key is valid: in proxy mode, if the upstream has accepted it before. */
  readonly isKeyAccepted?: boolean;
  /** True if nothing is known of the limits: one operation of a batch then runs before the others are admitted. */
  readonly areLimitsUnknown?: boolean;
  /** The key to send upstream. Absent with a store backend, which looks up keys itself. */
  readonly upstreamKey?: UpstreamKey | undefined;
  /**
   * @throws StoreError `unauthorized` without a valid key, `rate_limited` if the client's address has received too many
   * 401 responses, `key_banned` if the key is banned
   */
  requireKey(): MaybePromise<void>;
  /**
   * Admits `cost` requests of the key: all of them or none.
   * @throws StoreError `rate_limited`, `key_banned` or `operation_too_large`
   */
  admit(cost: number): MaybePromise<void>;
  /** Returns the caller's windows. Undefined while the limits are unknown. */
  allowance(): MaybePromise<Allowance | undefined>;
  /** Ends the session. In proxy mode, admitted requests that were never sent become available again. */
  close(): void;
}

export interface Access {
  /**
   * @param authorization - the header
   * @param address - what the client is counted by
   * @throws StoreError `unavailable` if the key cannot be looked up
   */
  open(authorization: string | undefined, address: string, span: Span): MaybePromise<Session>;
}

/** Rethrows why a request fails before it is admitted, unless another instance has banned its key. */
export function rethrowUnlessBanned(session: Session) {
  return async (thrown: unknown): Promise<never> => {
    await session.admit(0);
    throw thrown;
  };
}
