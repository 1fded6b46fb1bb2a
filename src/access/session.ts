import type { MaybePromise } from './maybe-promise.js';
import type { WindowState } from './ledger.js';
import type { Plan } from './plans.js';
import type { UpstreamKey } from './upstream-key.js';

/** What is left to whoever asked, for headers and for the rateLimit field. */
export interface Allowance {
  /** Absent for a client address, and where a plan cannot be told from its numbers. */
  readonly plan: Plan | undefined;
  readonly windows: readonly WindowState[];
}

/** One HTTP request, seen from who asks and how much they may: the same for GraphQL and REST. */
export interface Session {
  /** Identifies the key that was sent, unless it is known to be no valid one. Never the key. */
  readonly keyId: string | undefined;
  /** True when a bearer key was sent and is not valid. */
  readonly isKeyRefused: boolean;
  /** The key for a source that asks another store; absent where keys are looked up here. */
  readonly upstreamKey?: UpstreamKey | undefined;
  /**
   * Lets the holder of a valid key pass.
   * @throws StoreError `unauthorized` without a valid key, or `rate_limited` when the client address was told so too
   * often; `key_banned`
   */
  requireKey(): MaybePromise<void>;
  /**
   * Admits `cost` requests of the key, all of them or none.
   * @throws StoreError `rate_limited`, `key_banned` or `operation_too_large`
   */
  admit(cost: number): MaybePromise<void>;
  /** What is left; undefined while nothing is known. */
  allowance(): MaybePromise<Allowance | undefined>;
  /** Ends the session: what was admitted and never asked for is given back, where the upstream does the counting. */
  close(): void;
}

/** The way in for both faces. */
export interface Access {
  /**
   * Begins the session of a request.
   * @param authorization - the `Authorization` header
   * @param address - the client's address
   * @throws StoreError `unavailable` when the key cannot be looked up
   */
  open(authorization: string | undefined, address: string): MaybePromise<Session>;
}
