import type { Outcome, UpstreamRequest } from './exchange.js';

/** Statuses of a temporary failure, after which a GET is sent again. */
const RETRIED_STATUSES = new Set([502, 503, 504]);

/** A GET may be sent twice. A POST is sent again only if the upstream certainly never received it. */
export function isWorthRetrying(method: UpstreamRequest['method'], outcome: Outcome): boolean {
  switch (outcome.kind) {
    case 'answer':
      return method === 'GET' && RETRIED_STATUSES.has(outcome.status);
    case 'unreachable':
    case 'mismatched':
      return method === 'GET' || !outcome.wasSent;
    case 'broken':
    case 'refused':
    case 'timeout':
    case 'cancelled':
      return false;
  }
}

/** Retries that each request earns, and the most that can be saved up, which is also the number at the start. */
const SHARE = 0.15;
const RESERVE = 5;

/** Limits retries to a small share of all requests, so that they add little load to an upstream in trouble. */
export function createRetryBudget() {
  let retries = RESERVE;
  return {
    /** Counts a first attempt. */
    deposit() {
      retries = Math.min(RESERVE, retries + SHARE);
    },
    /** Takes one retry. Returns false if none is left. */
    withdraw(): boolean {
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
