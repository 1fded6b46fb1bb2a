import { digestApiKey, explainMistake, isPlausibleApiKey, parseBearer } from '../access/api-key.js';
import {
  KeylessSession,
  type Access,
  type AdmissionObserver,
  type Allowance,
  type Session,
} from '../access/session.js';
import type { Admission, Ledger, WindowState } from '../access/ledger.js';
import { chain, type MaybePromise } from '../access/maybe-promise.js';
import { keyMissing, keyRefused, toRefusal } from '../access/refusals.js';
import { createBoundedCache } from '../bounded-cache.js';
import { monotonicNow } from '../clock.js';
import type { StoreError } from '../errors.js';
import { toKeyAccount, type KeyAccount, type KeyStore } from './postgres-key-store.js';

/**
 * Creates the access to a store: it looks up keys and counts their requests.
 * @param addressLedger - counts the 401 responses of client addresses
 */
export function createStoreAccess(
  keys: Pick<KeyStore, 'findByDigest' | 'findVersion'>,
  ledger: Ledger,
  addressLedger: Ledger,
  observer: AdmissionObserver,
): Access {
  const authenticator = createAuthenticator(keys);
  const refuse = (address: string, explain: () => StoreError, isKeyRefused: boolean): Session =>
    new KeylessSession(addressLedger, address, explain, observer, isKeyRefused);
  return {
    open(authorization, address) {
      const key = parseBearer(authorization);
      if (key === undefined) return refuse(address, keyMissing, false);
      return chain(authenticator.authenticate(key), (caller) =>
        caller
          ? new CallerSession(caller, ledger, observer)
          : refuse(address, () => keyRefused(explainMistake(key)), true),
      );
    },
  };
}

class CallerSession implements Session {
  readonly keyId: string;
  readonly isKeyRefused = false;
  readonly isKeyAccepted = true;
  readonly readOnly: boolean;
  #windows: readonly WindowState[] | undefined;

  constructor(
    private readonly caller: KeyAccount,
    private readonly ledger: Ledger,
    private readonly observer: AdmissionObserver,
  ) {
    this.keyId = caller.id;
    this.readOnly = caller.readOnly;
  }

  requireKey(): void {
    const ban = this.ledger.findBan(this.caller);
    if (ban) this.#settle(ban, 0);
  }

  admit(cost: number): MaybePromise<void> {
    return chain(this.ledger.admit(this.caller, cost), (admission) => this.#settle(admission, cost));
  }

  explain(error: StoreError): MaybePromise<StoreError> {
    if (this.#windows) return error;
    return chain(this.ledger.admit(this.caller, 0), (admission) => {
      this.#windows = admission.windows;
      return toRefusal(admission, 0) ?? error;
    });
  }

  allowance(): MaybePromise<Allowance> {
    const { plan } = this.caller;
    if (this.#windows) return { plan, windows: this.#windows };
    return chain(this.ledger.admit(this.caller, 0), ({ windows }) => ({ plan, windows }));
  }

  #settle(admission: Admission, cost: number): void {
    const { caller, observer } = this;
    this.#windows = admission.windows;
    const refusal = toRefusal(admission, cost);
    if (!refusal) {
      if (cost > 0) observer.admitted(caller.plan, cost);
      return;
    }
    observer.refused(caller.plan, refusal.code);
    throw refusal;
  }
}

/** How long a lookup is valid. A revocation takes this long at most, and a key works this long in an outage. */
const TRUSTED_MS = 5_000;
/** How often the version of all keys is asked for, and a key of another version is looked up again, in the background. */
const REFRESH_MS = 1_000;
/** After this time, a key is looked up again even if the version is the same. */
const REFRESH_ALL_MS = 600_000;

/** What the store has said, and when it was asked, by `monotonicNow`. */
interface Version {
  /** Changes when any key changes or is deleted. Undefined if the store has not said it. */
  readonly version: string | undefined;
  readonly askedAt: number;
}

interface Lookup extends Version {
  readonly caller: KeyAccount | undefined;
  /** In milliseconds since the epoch: a key expires by the wall clock. */
  readonly expiresAt: number;
}

export type Authenticator = ReturnType<typeof createAuthenticator>;

/**
 * Creates an authenticator that caches valid keys, and unknown ones for five seconds. Once a second it asks for the version
 * of all keys, and looks up again only those that it knows from another version.
 */
export function createAuthenticator(
  keys: Pick<KeyStore, 'findByDigest' | 'findVersion'>,
  { capacity = 200_000, unknownCapacity = 10_000 } = {},
) {
  const valid = createBoundedCache<Lookup>(capacity);
  // Guessed keys must not push out valid ones.
  const unknown = createBoundedCache<Lookup>(unknownCapacity);
  const lookups = new Map<string, Promise<Lookup>>();
  let current: Version = { version: undefined, askedAt: -Infinity };
  let triedAt = -Infinity;

  return {
    /**
     * Finds the caller of a key, without a promise if it is cached; undefined if it is unknown, revoked or expired.
     * @throws StoreError `unavailable` if the key is not cached and cannot be looked up
     */
    authenticate(key: string): MaybePromise<KeyAccount | undefined> {
      const digest = digestApiKey(key);
      const last = valid.get(digest) ?? unknown.get(digest);
      if (!last && !isPlausibleApiKey(key)) return undefined;
      const now = monotonicNow();
      if (now - triedAt >= REFRESH_MS) void askForVersion((triedAt = now));
      if (!last) return lookUp(digest).then(unlessExpired);
      const isUnchanged = last.caller && last.version !== undefined && last.version === current.version;
      const age = now - (isUnchanged ? Math.max(current.askedAt, last.askedAt) : last.askedAt);
      if (age >= TRUSTED_MS) return lookUp(digest).then(unlessExpired);
      // If this fails, the cached lookup stays until it is too old. The next request then reports the failure.
      const isDue = age >= REFRESH_MS && !isUnchanged;
      if (last.caller && (isDue || now - last.askedAt >= REFRESH_ALL_MS)) void lookUp(digest).catch(() => undefined);
      return unlessExpired(last);
    },
  };

  /** If this fails, lookups become too old one by one. */
  async function askForVersion(askedAt: number): Promise<void> {
    const version = await keys.findVersion().catch(() => undefined);
    if (version !== undefined) current = { version, askedAt };
  }

  function lookUp(digest: string): Promise<Lookup> {
    let lookup = lookups.get(digest);
    if (!lookup) {
      lookup = readFromStore(digest).finally(() => lookups.delete(digest));
      lookups.set(digest, lookup);
    }
    return lookup;
  }

  async function readFromStore(digest: string): Promise<Lookup> {
    const askedAt = monotonicNow();
    const record = await keys.findByDigest(digest);
    const caller = record?.revokedAt === null ? toKeyAccount(record) : undefined;
    const lookup = { caller, expiresAt: record?.expiresAt?.getTime() ?? Infinity, version: record?.version, askedAt };
    valid.delete(digest);
    (caller ? valid : unknown).set(digest, lookup);
    return lookup;
  }
}

function unlessExpired({ caller, expiresAt }: Lookup): KeyAccount | undefined {
  return expiresAt > Date.now() ? caller : undefined;
}
