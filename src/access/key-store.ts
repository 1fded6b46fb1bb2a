import type { Plan, PlanLimits } from './plans.js';

/** A stored API key, without its secret. */
export interface KeyRecord {
  readonly id: string;
  readonly plan: Plan;
  readonly label: string | null;
  readonly limits: PlanLimits;
  readonly createdAt: Date;
  readonly expiresAt: Date | null;
  readonly revokedAt: Date | null;
}

/** The properties of a key to create. Enterprise keys need `limits`; the other plans must not have them. */
export interface NewKey {
  readonly plan: Plan;
  readonly label?: string | undefined;
  readonly limits?: PlanLimits | undefined;
  readonly expiresAt?: Date | undefined;
}

/** A newly created key, with its secret, which is shown only once. */
export interface CreatedKey extends KeyRecord {
  readonly key: string;
}

export interface KeyStore {
  /** Finds a key by the digest of its secret, including revoked and expired keys. */
  findByDigest(digest: string): Promise<KeyRecord | undefined>;
  /** Creates a key, with the given secret or a generated one. */
  create(newKey: NewKey, secret?: string): Promise<CreatedKey>;
  /** Lists every key, the oldest first. */
  list(): Promise<readonly KeyRecord[]>;
  /** Revokes a key permanently. Returns undefined if the key does not exist. Revoking it again changes nothing. */
  revoke(id: string): Promise<KeyRecord | undefined>;
}
