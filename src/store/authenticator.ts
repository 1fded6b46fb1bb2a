import { createBoundedCache } from '../bounded-cache.js';
import { digestApiKey, isPlausibleApiKey } from '../access/api-key.js';
import type { Account } from '../access/ledger.js';
import type { KeyRecord, KeyStore } from '../access/key-store.js';
import type { MaybePromise } from '../access/maybe-promise.js';
import { memoize } from '../access/memoize.js';
import { toWindows, type Plan } from '../access/plans.js';

/** Who asks: the holder of a valid key, whose identifier is that of the account. Never the key itself. */
export interface Caller extends Account {
  readonly plan: Plan;
}

export interface Authenticator {
  /**
   * Finds the caller of a key; undefined when the key is unknown, revoked or expired. A known key is answered from
   * memory, without a promise.
   * @throws StoreError `unavailable` when the key is not in memory and cannot be looked up
   */
  authenticate(key: string): MaybePromise<Caller | undefined>;
}

/** A revocation is effective, and a known key outlives its database, for this long. */
const TRUSTED_MS = 5_000;
/** A key in use is looked up again behind the scenes when its answer is this old, so that no request waits for it. */
const REFRESH_MS = 2_000;

/** Instead of the digest of what cannot be a key at all. */
const IMPLAUSIBLE = '';

interface Known {
  readonly caller: Caller | undefined;
  readonly expiresAt: number;
  readonly askedAt: number;
}

export interface AuthenticatorOptions {
  readonly keys: Pick<KeyStore, 'findByDigest'>;
  /** Valid keys remembered at the most. Each is looked up again when it is five seconds old, so more would hardly be found. */
  readonly capacity?: number;
  /** Unknown keys remembered at the most, apart from the valid ones so that guessing does not push those out. */
  readonly unknownCapacity?: number;
}

/** Looks keys up, remembering valid and unknown ones for five seconds each. */
export function createAuthenticator({
  keys,
  capacity = 50_000,
  unknownCapacity = 10_000,
}: AuthenticatorOptions): Authenticator {
  const valid = createBoundedCache<Known>(capacity);
  const unknown = createBoundedCache<Known>(unknownCapacity);
  const lookups = new Map<string, Promise<Known>>();

  const readKey = memoize((key) => (isPlausibleApiKey(key) ? digestApiKey(key) : IMPLAUSIBLE));

  return {
    authenticate(key) {
      const digest = readKey(key);
      if (digest === IMPLAUSIBLE) return undefined;
      const known = valid.get(digest) ?? unknown.get(digest);
      const now = Date.now();
      if (known === undefined || now - known.askedAt >= TRUSTED_MS)
        return lookUp(digest).then((found) => toCaller(found, Date.now()));
      // A refresh that fails leaves what is known until it is too old; the request that finds it so reports the failure.
      if (now - known.askedAt >= REFRESH_MS && known.caller) void lookUp(digest).catch(() => undefined);
      return toCaller(known, now);
    },
  };

  function lookUp(digest: string): Promise<Known> {
    const running = lookups.get(digest);
    if (running) return running;
    const askedAt = Date.now();
    const lookup = keys
      .findByDigest(digest)
      .then((record) => remember(digest, askedAt, record))
      .finally(() => lookups.delete(digest));
    lookups.set(digest, lookup);
    return lookup;
  }

  function remember(digest: string, askedAt: number, record: KeyRecord | undefined): Known {
    if (record?.revokedAt !== null) {
      const known = { caller: undefined, expiresAt: Infinity, askedAt };
      valid.delete(digest);
      unknown.set(digest, known);
      return known;
    }
    const known = {
      caller: { id: record.id, plan: record.plan, windows: toWindows(record.limits) },
      expiresAt: record.expiresAt?.getTime() ?? Infinity,
      askedAt,
    };
    valid.set(digest, known);
    return known;
  }
}

function toCaller({ caller, expiresAt }: Known, now: number): Caller | undefined {
  return expiresAt > now ? caller : undefined;
}
