import type { StoreError } from '../errors.js';

/** What an upstream's answer says about the limits of the key that asked. */
export interface UpstreamAnswerHead {
  readonly status: number;
  /** Returns a header by its lower-case name. */
  readonly header: (name: string) => string | undefined;
  /** The `code` of the Error body, if the answer has one. */
  readonly errorCode?: string | undefined;
}

/** A caller's key, for a source that asks another store with it. */
export interface UpstreamKey {
  /** Identifies the key; not the key itself. */
  readonly id: string;
  /** The `Authorization` header, to be sent unchanged and nowhere else. */
  readonly authorization: string;
  /** Why no request of this key may be sent now. Called again right before a request is sent. */
  findRefusal(): StoreError | undefined;
  /**
   * Called for every answer as soon as it arrives.
   * @param sentAt - when its request was sent, by `performance.now()`
   */
  learn(answer: UpstreamAnswerHead, sentAt: number): void;
}
