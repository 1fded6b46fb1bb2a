import { digestApiKey, isPlausibleApiKey } from '../access/api-key.js';
import type { MaybePromise } from '../access/maybe-promise.js';
import { createBoundedCache, memoize } from '../bounded-cache.js';
import { monotonicNow } from '../clock.js';
import { toCaller, type Caller, type KeyStore } from './postgres-key-store.js';

/** How long a lookup is valid. A revocation takes this long at most, and a cached key works this long in an outage. */
const TRUSTED_MS = 5_000;
/** After this time, a key in use is looked up again in the background, so that no request waits for the lookup. */
const REFRESH_MS = 1_000;

interface Known {
  readonly caller: Caller | undefined;
  /** In milliseconds since the epoch. */
  readonly expiresAt: number;
  /** When the lookup began, by `monotonicNow`. */
  readonly askedAt: number;
}

export type Authenticator = ReturnType<typeof createAuthenticator>;

/** Creates an authenticator that caches valid and unknown keys for five seconds. */
export function createAuthenticator(
  keys: Pick<KeyStore, 'findByDigest'>,
  { capacity = 50_000, unknownCapacity = 10_000 } = {},
) {
  const valid = createBoundedCache<Known>(capacity);
  // Guessed keys must not push out valid ones.
  const unknown = createBoundedCache<Known>(unknownCapacity);
  const lookups = new Map<string, Promise<Known>>();

  /** Returns the digest of a key, or an empty text if the text cannot be a key. */
  const readKey = memoize((key) => (isPlausibleApiKey(key) ? digestApiKey(key) : ''));

  return {
    /**
     * Finds the caller of a key; undefined if the key is unknown, revoked or expired. Returns the caller of a cached
     * key without a promise.
     * @throws StoreError `unavailable` if the key is not cached and cannot be looked up
     */
    authenticate(key: string): MaybePromise<Caller | undefined> {
      const digest = readKey(key);
      if (digest === '') return undefined;
      const known = valid.get(digest) ?? unknown.get(digest);
      const age = known === undefined ? Infinity : monotonicNow() - known.askedAt;
      if (known === undefined || age >= TRUSTED_MS) return lookUp(digest).then(unlessExpired);
      // If the refresh fails, the cached result stays until it is too old. The next request then reports the failure.
      if (age >= REFRESH_MS && known.caller) void lookUp(digest).catch(() => undefined);
      return unlessExpired(known);
    },
  };

  function lookUp(digest: string): Promise<Known> {
    let lookup = lookups.get(digest);
    if (!lookup) {
      lookup = readFromStore(digest).finally(() => lookups.delete(digest));
      lookups.set(digest, lookup);
    }
    return lookup;
  }

  async function readFromStore(digest: string): Promise<Known> {
    const askedAt = monotonicNow();
    const record = await keys.findByDigest(digest);
    const caller = record?.revokedAt === null ? toCaller(record) : undefined;
    const known = { caller, expiresAt: record?.expiresAt?.getTime() ?? Infinity, askedAt };
    valid.delete(digest);
    (caller ? valid : unknown).set(digest, known);
    return known;
  }
}

/** A key expires by the wall clock. */
function unlessExpired({ caller, expiresAt }: Known): Caller | undefined {
  return expiresAt > Date.now() ? caller : undefined;
}
