/** A time in which a gateway sends nothing with a key, because the upstream answered 429. Times: `monotonicNow`. */
export interface Cooldown {
  /** When to try one request, which may be before `retryAt`: limits may have been raised. */
  readonly until: number;
  /** When clients should try again. */
  readonly retryAt: number;
  readonly code: 'rate_limited' | 'key_banned';
}

export interface Cooldowns {
  /** Finds it until `until`. */
  find(keyId: string): Promise<Cooldown | undefined>;
  /** Does not wait for the other gateways. */
  share(keyId: string, cooldown: Cooldown): void;
}
