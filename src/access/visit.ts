import type { Caller, MaybePromise } from './authenticator.js';
import type { WindowState } from './ledger.js';
import type { Plan } from './plans.js';

/** What is left to whoever asked, for headers and for the rateLimit field. */
export interface Allowance {
  /** Absent for a client address, and where a plan cannot be told from its numbers. */
  readonly plan: Plan | undefined;
  readonly windows: readonly WindowState[];
}

/** One HTTP request, seen from who asks and how much they may: the same for GraphQL and REST. */
export interface Visit {
  /** The holder of the valid key that was sent, if one was. */
  readonly caller: Caller | undefined;
  /** True when a bearer key was sent and is not valid. */
  readonly isKeyRefused: boolean;
  /**
   * Returns the caller.
   * @throws StoreError `unauthorized` without a valid key, or `rate_limited` when the client address was told so too
   * often; `key_banned`
   */
  requireCaller(): MaybePromise<Caller>;
  /**
   * Admits `cost` requests of the caller, all of them or none.
   * @throws StoreError `rate_limited`, `key_banned` or `operation_too_large`
   */
  admit(cost: number): MaybePromise<void>;
  /** What is left, as of the last admission. */
  allowance(): MaybePromise<Allowance | undefined>;
}

/** The way in for both faces. */
export interface Access {
  /**
   * Begins the visit of a request.
   * @param authorization - the `Authorization` header
   * @param address - the client's address
   * @throws StoreError `unavailable` when the key cannot be looked up
   */
  open(authorization: string | undefined, address: string): MaybePromise<Visit>;
}
