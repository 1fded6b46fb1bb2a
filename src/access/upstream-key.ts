import type { StoreError } from '../errors.js';

/** What matters of an answer of another store to the limits of the key that asked. */
export interface UpstreamAnswerHead {
  readonly status: number;
  /** A header by its lower-case name. */
  readonly header: (name: string) => string | undefined;
  /** The `code` of the Error body, if the answer has one. */
  readonly errorCode?: string | undefined;
}

/** A caller's key, as a source needs it that asks another store in the caller's name. */
export interface UpstreamKey {
  /** Tells keys apart; not the key. */
  readonly id: string;
  /** The `Authorization` header, to be sent unchanged and nowhere else. */
  readonly authorization: string;
  /** Why no request of this key may be sent just now. Asked again right before a request leaves. */
  findRefusal(): StoreError | undefined;
  /**
   * Is told of every answer, as soon as it has come.
   * @param leftAt - when its request left, by `performance.now()`
   */
  learn(answer: UpstreamAnswerHead, leftAt: number): void;
}
