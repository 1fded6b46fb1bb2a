/** One request to another store. */
export interface OutgoingRequest {
  readonly method: 'GET' | 'POST';
  /** The path under the store's base address, with its leading slash. */
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string | undefined;
  /** Asked right before the request is written to a connection: throws when it must not leave any more. */
  beforeLeaving(): void;
  /** Called once: with the answer, an UpstreamFailure, what `beforeLeaving` threw, or the reason of `cancel`. */
  settle(outcome: UpstreamAnswer | Error): void;
}

/** An answer of another store, whatever its status. */
export interface UpstreamAnswer {
  readonly status: number;
  readonly header: (name: string) => string | undefined;
  /** Undefined when it is too large or not UTF-8: nothing to be read. */
  readonly body: string | undefined;
}

/** No answer came. */
export class UpstreamFailure extends Error {
  override readonly name = 'UpstreamFailure';

  constructor(
    /** `unreachable`: no connection, or it broke before the answer; `broken`: what came is not a whole HTTP answer. */
    readonly kind: 'unreachable' | 'broken',
    /** Whether the request may have reached the store. */
    readonly hasLeft: boolean,
    cause: Error,
  ) {
    super(cause.message, { cause });
  }
}
