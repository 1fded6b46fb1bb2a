import type { MaybePromise } from './maybe-promise.js';
import type { WindowLimit } from './plans.js';

/** What is counted: a key, or a client address. */
export interface Account {
  /** Identifies the account; never a secret. */
  readonly id: string;
  readonly windows: readonly WindowLimit[];
}

/** One window of an account as it stands. */
export interface WindowState {
  /** `minute` or `day`; another store may have names of its own. */
  readonly name: string;
  /** Length in seconds; null when another store does not state it. */
  readonly seconds: number | null;
  readonly limit: number;
  readonly remaining: number;
  /** When it closes, in milliseconds since the epoch; of a window that is not open, when it would if it opened now. */
  readonly resetAt: number;
}

/** The answer to a question for admission. What is refused is charged in no window. */
export type Admission =
  | { readonly outcome: 'admitted'; readonly windows: readonly WindowState[] }
  /** Over the limit; `retryAfter` in seconds. */
  | { readonly outcome: 'refused'; readonly windows: readonly WindowState[]; readonly retryAfter: number }
  /** Refused too often; `retryAfter` in seconds, until the ban ends. */
  | { readonly outcome: 'banned'; readonly windows: readonly WindowState[]; readonly retryAfter: number }
  /** The cost exceeds what a window can ever hold. */
  | { readonly outcome: 'too-large'; readonly windows: readonly WindowState[]; readonly limit: number };

export type Banned = Extract<Admission, { readonly outcome: 'banned' }>;

/** What is counted of an account. Window `i` is that of `account.windows[i]`; times are in milliseconds since the epoch. */
export interface Counts {
  readonly used: readonly number[];
  /** When each window closes; in the past, or 0 before it first opened: it is not open. */
  readonly closesAt: readonly number[];
  /** In the past: there is no ban. */
  readonly bannedUntil: number;
}

/**
 * Counts requests. Admission is one atomic step over all windows of the account: either every window has room and all
 * are charged, or none is.
 */
export interface Ledger {
  /**
   * Asks for the admission of `cost` requests. A cost of 0 is admitted unless the account is banned; it opens no window.
   */
  admit(account: Account, cost: number): MaybePromise<Admission>;
  /** The ban of an account as far as it is known here: another process may have imposed one. Nobody is asked. */
  findBan(account: Account): Banned | undefined;
}
