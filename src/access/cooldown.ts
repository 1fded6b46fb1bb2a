/** A period in which a gateway sends nothing with a key, because the upstream answered 429. Times: `monotonicNow`. */
export interface Cooldown {
  /** When to try one request. Before `retryAt` if limits may have been raised by then. */
  readonly until: number;
  /** When the upstream will serve the key again, as far as is known: what clients are told. */
  readonly retryAt: number;
  readonly code: 'rate_limited' | 'key_banned';
}

/** The cooldowns that gateways share. */
export interface Cooldowns {
  /**
   * Finds the cooldown of a key. If `until` has passed, only the first gateway that asks gets undefined, and tries a
   * request for all. Call `share` or `end` with its result.
   */
  find(keyId: string): Promise<Cooldown | undefined>;
  /** Shares a cooldown with the other gateways, without waiting for them. */
  share(keyId: string, cooldown: Cooldown): void;
  /** Ends a cooldown early, because the upstream has served the key. Does nothing unless this gateway is trying it. */
  end(keyId: string): void;
}
