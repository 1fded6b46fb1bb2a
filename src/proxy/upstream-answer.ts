/** A response of the upstream, with any status. */
export interface UpstreamAnswer {
  readonly status: number;
  readonly header: (name: string) => string | undefined;
  /** Undefined if the body is too large, incomplete or not UTF-8. */
  readonly body: string | undefined;
}

/** The upstream sent no complete response. */
export class UpstreamFailure extends Error {
  override readonly name = 'UpstreamFailure';

  constructor(
    /**
     * `unreachable`: there was no connection, or it broke before the response began; `broken`: the response was incomplete
     * or not HTTP; `mismatched`: it was the response to another request.
     */
    readonly kind: 'unreachable' | 'broken' | 'mismatched',
    /** Whether the upstream may have received the request. */
    readonly wasSent: boolean,
    cause: Error,
  ) {
    super(cause.message, { cause });
  }
}

/**
 * How an attempt ended: with an answer, an `UpstreamFailure`, or the reason why it was cancelled or never sent. Failures
 * are values, not exceptions, because many requests run at once and each may fail on its own.
 */
export type Outcome = UpstreamAnswer | Error;
