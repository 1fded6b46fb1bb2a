import { createBoundedCache } from '../bounded-cache.js';
import { fromWallTime, monotonicNow } from '../clock.js';
import { digestApiKey, isPlausibleApiKey } from '../access/api-key.js';
import type { Account } from '../access/ledger.js';
import type { KeyRecord, KeyStore } from '../access/key-store.js';
import type { MaybePromise } from '../access/maybe-promise.js';
import { memoize } from '../access/memoize.js';
import { toWindows, type Plan } from '../access/plans.js';

/** The holder of a valid key. Its `id` identifies the account and is never the key itself. */
export interface Caller extends Account {
  readonly plan: Plan;
}

/** How long a lookup is valid. A revocation takes this long at most, and a cached key works this long in an outage. */
const TRUSTED_MS = 5_000;
/** After this time, a key in use is looked up again in the background, so that no request waits for the lookup. */
const REFRESH_MS = 1_000;

/** Replaces the digest of a text that cannot be a key. */
const IMPLAUSIBLE = '';

interface Known {
  readonly caller: Caller | undefined;
  /** In milliseconds since the epoch. */
  readonly expiresAt: number;
  /** When the lookup began, by `monotonicNow`. */
  readonly askedAt: number;
}

export interface AuthenticatorOptions {
  readonly keys: Pick<KeyStore, 'findByDigest'>;
  /** The most valid keys in the cache. */
  readonly capacity?: number;
  /** The most unknown keys in their own cache: guessed keys must not push out valid ones. */
  readonly unknownCapacity?: number;
}

export type Authenticator = ReturnType<typeof createAuthenticator>;

/** Creates an authenticator that caches valid and unknown keys for five seconds. */
export function createAuthenticator({ keys, capacity = 50_000, unknownCapacity = 10_000 }: AuthenticatorOptions) {
  const valid = createBoundedCache<Known>(capacity);
  const unknown = createBoundedCache<Known>(unknownCapacity);
  const lookups = new Map<string, Promise<Known>>();

  const readKey = memoize((key) => (isPlausibleApiKey(key) ? digestApiKey(key) : IMPLAUSIBLE));

  return {
    /**
     * Finds the caller of a key; undefined if the key is unknown, revoked or expired. Returns the caller of a cached
     * key without a promise.
     * @throws StoreError `unavailable` if the key is not cached and cannot be looked up
     */
    authenticate(key: string): MaybePromise<Caller | undefined> {
      const digest = readKey(key);
      if (digest === IMPLAUSIBLE) return undefined;
      const known = valid.get(digest) ?? unknown.get(digest);
      const age = known === undefined ? Infinity : monotonicNow() - known.askedAt;
      if (known === undefined || age >= TRUSTED_MS) return lookUp(digest).then(toCaller);
      // If the refresh fails, the cached result stays until it is too old. The next request then reports the failure.
      if (age >= REFRESH_MS && known.caller) void lookUp(digest).catch(() => undefined);
      return toCaller(known);
    },
  };

  function lookUp(digest: string): Promise<Known> {
    const running = lookups.get(digest);
    if (running) return running;
    const askedAt = monotonicNow();
    const lookup = keys
      .findByDigest(digest)
      .then((record) => cache(digest, askedAt, record))
      .finally(() => lookups.delete(digest));
    lookups.set(digest, lookup);
    return lookup;
  }

  function cache(digest: string, askedAt: number, record: KeyRecord | undefined): Known {
    if (record?.revokedAt !== null) {
      const known = { caller: undefined, expiresAt: Infinity, askedAt };
      valid.delete(digest);
      unknown.set(digest, known);
      return known;
    }
    const known = {
      caller: {
        id: record.id,
        plan: record.plan,
        windows: toWindows(record.limits),
        unbannedAt: record.unbannedAt ? fromWallTime(record.unbannedAt.getTime()) : 0,
      },
      expiresAt: record.expiresAt?.getTime() ?? Infinity,
      askedAt,
    };
    valid.set(digest, known);
    return known;
  }
}

/** A key expires by the wall clock. */
function toCaller({ caller, expiresAt }: Known): Caller | undefined {
  return expiresAt > Date.now() ? caller : undefined;
}
