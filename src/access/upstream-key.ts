import type { StoreError } from '../errors.js';

/** The parts of an upstream's response that state the limits of a key. */
export interface UpstreamAnswerHead {
  readonly status: number;
  readonly header: (name: string) => string | undefined;
}

/** A caller's key, with which the proxy source sends requests upstream. */
export interface UpstreamKey {
  /** Identifies the key. Never the key itself. */
  readonly id: string;
  /** The `Authorization` header. It is sent to the upstream unchanged, and nowhere else. */
  readonly authorization: string;
  /** Returns why this key may send no request now. Also called immediately before each request is sent. */
  findRefusal(): StoreError | undefined;
  /**
   * Called for every response as soon as it arrives.
   * @param sentAt - when its request was sent, by `performance.now()`
   * @param refusal - the error for the client, if the upstream refused the key or its rate
   */
  learn(answer: UpstreamAnswerHead, sentAt: number, refusal?: StoreError): void;
}
