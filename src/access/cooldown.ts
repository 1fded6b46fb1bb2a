/** A time in which a gateway sends nothing with a key, because the upstream answered 429. Times: `monotonicNow`. */
export interface Cooldown {
  /** When to try one request, which may be before `retryAt`: limits may have been raised. */
  readonly until: number;
  /** When the upstream will serve the key again: what clients are told. */
  readonly retryAt: number;
  readonly code: 'rate_limited' | 'key_banned';
}

/** The cooldowns that gateways share. */
export interface Cooldowns {
  /**
   * Finds the cooldown of a key. Once `until` has passed, the first gateway that asks gets undefined: it tries a
   * request for all, and calls `share` or `end`.
   */
  find(keyId: string): Promise<Cooldown | undefined>;
  /** Shares a cooldown with the other gateways, without waiting for them. */
  share(keyId: string, cooldown: Cooldown): void;
  /** Ends the cooldown, because the upstream has served the key. */
  end(keyId: string): void;
}
