import type { Plan, PlanLimits } from './plans.js';

/** An API key as it is kept: never the secret itself. */
export interface KeyRecord {
  readonly id: string;
  readonly plan: Plan;
  readonly label: string | null;
  readonly limits: PlanLimits;
  readonly createdAt: Date;
  readonly expiresAt: Date | null;
  readonly revokedAt: Date | null;
}

/** What a new key is to be. Enterprise brings its two numbers, the other plans have none of their own. */
export interface NewKey {
  readonly plan: Plan;
  readonly label?: string | undefined;
  readonly limits?: PlanLimits | undefined;
  readonly expiresAt?: Date | undefined;
}

/** A key just made, with the secret that is shown once. */
export interface CreatedKey extends KeyRecord {
  readonly key: string;
}

/** Where API keys live. */
export interface KeyStore {
  /** Finds a key by the digest of its secret, revoked and expired ones included. */
  findByDigest(digest: string): Promise<KeyRecord | undefined>;
  /** Makes a key, with the given secret or a new one. */
  create(newKey: NewKey, secret?: string): Promise<CreatedKey>;
  /** Every key, the oldest first. */
  list(): Promise<readonly KeyRecord[]>;
  /** Revokes a key for good. Returns undefined when there is no such key; revoking again changes nothing. */
  revoke(id: string): Promise<KeyRecord | undefined>;
}
