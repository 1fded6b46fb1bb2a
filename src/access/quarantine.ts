import type { MaybePromise } from './maybe-promise.js';

/** The time for which another store has said not to ask with a key. */
export interface Quarantine {
  /** Milliseconds since the epoch. */
  readonly until: number;
  readonly code: 'rate_limited' | 'key_banned';
}

/** The quarantines that several gateways know of together. */
export interface SharedQuarantines {
  /** Finds that of a key which any of them has been told. */
  find(keyId: string): MaybePromise<Quarantine | undefined>;
  /** Tells the others; nobody waits for it. */
  share(keyId: string, quarantine: Quarantine): void;
}

/** What a gateway uses that knows of no other. */
export const UNSHARED_QUARANTINES: SharedQuarantines = { find: () => undefined, share: () => undefined };
