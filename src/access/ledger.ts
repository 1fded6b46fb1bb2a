import type { MaybePromise } from './maybe-promise.js';
import type { WindowLimit } from './plans.js';

/** A key or a client address. */
export interface Account {
  /** Never a secret. */
  readonly id: string;
  readonly windows: readonly WindowLimit[];
  /** Bans that began earlier are lifted. By `monotonicNow`. */
  readonly unbannedAt?: number;
}

/** The most windows of an account: an upstream may state any number. */
export const MAX_WINDOWS = 8;

export interface WindowState {
  /** `minute` or `day`. An upstream may use other names. */
  readonly name: string;
  /** Null if the upstream does not state it. */
  readonly seconds: number | null;
  readonly limit: number;
  readonly remaining: number;
  /** When it closes, or would close if it opened now, by `monotonicNow`. */
  readonly resetAt: number;
}

/** `retryAfter` is in seconds. */
export type Admission = { readonly windows: readonly WindowState[] } & (
  | { readonly outcome: 'admitted' }
  | { readonly outcome: 'refused' | 'banned'; readonly retryAfter: number }
  /** The cost is higher than the limit of a window. */
  | { readonly outcome: 'too-large'; readonly limit: number }
);

/** Counts requests. Admission is one atomic step: it charges all windows of the account if all have room, or none. */
export interface Ledger {
  /** Admits or refuses `cost` requests. A cost of 0 is admitted unless the account is banned, and opens no window. */
  admit(account: Account, cost: number): MaybePromise<Admission>;
  /** Returns the ban of an account, if this process knows of one. */
  findBan(account: Account): Admission | undefined;
}
