import type { MaybePromise } from '../access/maybe-promise.js';
import type { Span } from '../observability/tracing.js';

/** A period in which the gateway sends nothing with a key, because the upstream answered 429. */
export interface Cooldown {
  /** By `monotonicNow`. */
  readonly until: number;
  readonly code: 'rate_limited' | 'key_banned';
}

/** Cooldowns that several gateways share. */
export interface SharedCooldowns {
  /** Finds the cooldown of a key that any gateway has shared. */
  find(keyId: string, span: Span): MaybePromise<Cooldown | undefined>;
  /** Shares a cooldown with the other gateways, without waiting for them. */
  share(keyId: string, cooldown: Cooldown): void;
}

/** Used by a gateway without Redis. */
export const UNSHARED_COOLDOWNS: SharedCooldowns = { find: () => undefined, share: () => undefined };
