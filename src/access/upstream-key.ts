import type { StoreError } from '../errors.js';

/** The parts of an upstream's response that state the limits of a key. */
export interface UpstreamAnswerHead {
  readonly status: number;
  readonly header: (name: string) => string | undefined;
}

/** How the request ended that went first. */
export interface ProbeEnd {
  /** Whether the upstream did not answer. What waits then waits for no other probe. */
  readonly hasFailed: boolean;
  /** The error for the client, if the upstream refused the key or its rate. */
  readonly refusal?: StoreError | undefined;
}

/** A caller's key, with which the proxy source sends requests upstream. */
export interface UpstreamKey {
  /** Identifies the key. Never the key itself. */
  readonly id: string;
  /** The `Authorization` header. It is sent to the upstream unchanged, and nowhere else. */
  readonly authorization: string;
  /** True if nothing is known of the limits: requests then go one at a time. */
  readonly areLimitsUnknown: boolean;
  /** What to wait for before the next request, while nothing is known of the limits. */
  findProbe(): Promise<ProbeEnd> | undefined;
  /**
   * Makes all other requests with the key wait for the one that is sent next.
   * @returns the function that ends the wait if there is no answer
   */
  sendProbe(): () => void;
  /** Returns why this key may send no request now. Also called immediately before each request is sent. */
  findRefusal(): StoreError | undefined;
  /**
   * Called for every response as soon as it arrives.
   * @param sentAt - by `performance.now()`
   * @param refusal - the error for the client, if the upstream refused the key or its rate
   */
  learn(answer: UpstreamAnswerHead, sentAt: number, refusal?: StoreError): void;
}
