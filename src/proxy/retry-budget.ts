/** Limits retries to a small share of all requests, so that they add little load to an upstream in trouble. */
export interface RetryBudget {
  /** Counts a first attempt. */
  deposit(): void;
  /** Takes one retry. Returns false if none is left. */
  withdraw(): boolean;
}

/**
 * @param share - retries earned by each request
 * @param reserve - the most retries that can be saved up, and the number at the start
 */
export function createRetryBudget(share = 0.15, reserve = 5): RetryBudget {
  let retries = reserve;
  return {
    deposit() {
      retries = Math.min(reserve, retries + share);
    },
    withdraw() {
      if (retries < 1) return false;
      retries -= 1;
      return true;
    },
  };
}

const FIRST_BACKOFF_MS = 50;
const LONGEST_BACKOFF_MS = 1_000;

/** How long to wait before retry number `retry`, counted from 0: exponential backoff with full jitter. */
export function backoffMs(retry: number): number {
  return Math.random() * Math.min(LONGEST_BACKOFF_MS, FIRST_BACKOFF_MS * 2 ** retry);
}
