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
  /** Bans that began earlier are lifted. */
  readonly unbannedAt: Date | null;
}

/** What an operator decides about a key. Enterprise keys have their own limits; the other plans have published ones. */
export type KeySettings = Pick<KeyRecord, 'plan' | 'label' | 'limits' | 'expiresAt'>;

/** The settings of a key to create. */
export interface NewKey extends Partial<KeySettings> {
  readonly plan: Plan;
}

/** A newly created key, with its secret, which is shown only once. */
export interface CreatedKey extends KeyRecord {
  readonly key: string;
}

/** Which keys to list. */
export interface KeyFilter {
  readonly plan?: Plan | undefined;
  /** Only keys that work: neither revoked nor expired. */
  readonly active?: boolean | undefined;
  /** The id of a key: lists only older ones. */
  readonly after?: string | undefined;
  readonly limit: number;
}

/** The properties that an action changed, each with its old and its new value. */
export type KeyChanges = Readonly<Record<string, readonly [old: unknown, now: unknown]>>;

/** An entry of the log: who did what to which key. */
export interface KeyEvent {
  readonly at: Date;
  readonly actor: string;
  readonly action: 'create' | 'update' | 'rotate' | 'revoke' | 'unban';
  readonly keyId: string;
  readonly changes: KeyChanges;
}

/** API keys and the log of what was done to them. Each change and its entry in the log are written in one step. */
export interface KeyStore {
  /** Finds a key by the digest of its secret or of its previous secret, including revoked and expired keys. */
  findByDigest(digest: string): Promise<KeyRecord | undefined>;
  find(id: string): Promise<KeyRecord | undefined>;
  /** Lists keys, the newest first. */
  list(filter: KeyFilter): Promise<readonly KeyRecord[]>;
  /** Creates a key, with the given secret or a generated one. */
  create(newKey: NewKey, actor?: string, secret?: string): Promise<CreatedKey>;
  /** Replaces the settings of a key. Does nothing if they have changed since `record` was read, or the key is revoked. */
  update(record: KeyRecord, settings: KeySettings, actor: string): Promise<KeyRecord | undefined>;
  /** Gives a key a new secret. The old secret works until `previousEndsAt`, and a still older one no longer. */
  rotate(id: string, previousEndsAt: Date, actor: string): Promise<CreatedKey | undefined>;
  /** Revokes a key permanently. */
  revoke(id: string, actor: string): Promise<KeyRecord | undefined>;
  /** Lifts the ban of a key, on every instance. */
  unban(id: string, actor: string): Promise<KeyRecord | undefined>;
  /** Lists what was done to one key or to all keys, the latest first. */
  listEvents(filter: { readonly id?: string | undefined; readonly limit: number }): Promise<readonly KeyEvent[]>;
}
