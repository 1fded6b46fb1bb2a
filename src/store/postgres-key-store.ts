import { digestApiKey, generateApiKey, generateKeyId } from '../access/api-key.js';
import type { Account } from '../access/ledger.js';
import { PUBLISHED_LIMITS, toWindows, type Plan, type PlanLimits } from '../access/plans.js';
import { createBatcher } from '../batcher.js';
import { fromWallTime } from '../clock.js';
import { withDates, type Queryable, type Statement } from './database.js';

export interface KeyRecord {
  readonly id: string;
  readonly plan: Plan;
  readonly label: string | null;
  readonly limits: PlanLimits;
  readonly readOnly: boolean;
  readonly createdAt: Date;
  readonly expiresAt: Date | null;
  readonly revokedAt: Date | null;
  /** Bans that began earlier are lifted. */
  readonly unbannedAt: Date | null;
  /** When the secret before the last rotation ends, or ended. */
  readonly previousEndsAt: Date | null;
}

/** With the version of all keys at that moment: servers of a pool of replicas may differ. */
export type FoundKey = KeyRecord & { readonly version: string };

/** With the last use within a year. */
export type UsedKey = KeyRecord & { readonly lastUsedAt: Date | null };

/** The holder of a valid key. Its `id` identifies the account and is never the key itself. */
export interface KeyAccount extends Account, Pick<KeyRecord, 'plan' | 'readOnly'> {}

export function toKeyAccount({ id, plan, limits, readOnly, unbannedAt: lifted }: KeyRecord): KeyAccount {
  return { id, plan, readOnly, windows: toWindows(limits), unbannedAt: lifted ? fromWallTime(lifted.getTime()) : 0 };
}

/** What an operator decides about a key. Only enterprise keys have limits of their own. */
export type KeySettings = Pick<KeyRecord, 'plan' | 'label' | 'limits' | 'expiresAt'>;

export type NewKey = Pick<KeyRecord, 'plan'> & Partial<KeySettings> & { readonly readOnly?: boolean };

/** A key with its new secret, which is shown only once. */
export type CreatedKey = KeyRecord & { readonly key: string };

export interface KeyFilter {
  readonly plan?: Plan;
  /** Only keys that work: neither revoked nor expired. */
  readonly active?: boolean;
  /** Only keys that existed for this long and were not used, in milliseconds. */
  readonly unusedMs?: number;
  /** Only keys that expire within this time, in milliseconds, the next one first. */
  readonly expiringMs?: number;
  readonly limit?: number;
}

export interface KeyEvent {
  readonly at: Date;
  readonly actor: string;
  readonly action: 'create' | 'update' | 'rotate' | 'revoke' | 'unban' | 'delete';
  readonly keyId: string;
  /** The properties that changed, each with its old and its new value. */
  readonly changes: Readonly<Record<string, readonly [old: unknown, now: unknown]>>;
}

export interface KeyEventFilter {
  readonly id?: string;
  readonly limit: number;
}

/** A row of `COLUMNS`. The limits are null unless they are the key's own. */
type Row<Key extends KeyRecord> = Omit<Key, 'limits'> & PlanLimits;

const COLUMNS = `id, plan, label, per_minute AS "perMinute", per_day AS "perDay", read_only AS "readOnly",
  to_json(created_at) AS "createdAt", to_json(expires_at) AS "expiresAt", to_json(revoked_at) AS "revokedAt",
  to_json(unbanned_at) AS "unbannedAt", to_json(previous_ends_at) AS "previousEndsAt"`;

const WITH_LAST_USE = `${COLUMNS}, (
    SELECT to_json(last_at) FROM usage WHERE key_id = id ORDER BY starts_at DESC, last_at DESC LIMIT 1
  ) AS "lastUsedAt"`;

const FIND_BY_DIGEST = {
  name: 'find-keys',
  text: `SELECT digest, previous_digest AS "previousDigest", (SELECT key_version()) AS version, ${COLUMNS} FROM api_keys
         WHERE digest = ANY($1::bytea[]) OR previous_digest = ANY($1::bytea[])`,
};
const FIND_VERSION = { name: 'find-key-version', text: 'SELECT key_version() AS version' };
const FILTER = `
  WHERE ($1::text IS NULL OR plan = $1)
    AND ($2::boolean IS NOT TRUE OR revoked_at IS NULL AND (expires_at IS NULL OR expires_at > now()))
    AND ($3::float8 IS NULL OR created_at < now() - $3 * interval '1 ms' AND NOT EXISTS (
      SELECT FROM usage
      WHERE key_id = id AND starts_at > now() - $3 * interval '1 ms' - interval '24 hours'
        AND last_at > now() - $3 * interval '1 ms'
    ))
    AND ($4::float8 IS NULL OR revoked_at IS NULL AND expires_at BETWEEN now() AND now() + $4 * interval '1 ms')`;
const LIST = {
  name: 'list-keys',
  text: `SELECT ${WITH_LAST_USE} FROM api_keys ${FILTER}
         ORDER BY CASE WHEN $4 IS NOT NULL THEN expires_at END, created_at DESC, id DESC LIMIT $5`,
};
const COUNT = { name: 'count-keys', text: `SELECT count(*)::int AS count FROM api_keys ${FILTER}` };
const FIND = { name: 'find-key', text: `SELECT ${WITH_LAST_USE} FROM api_keys WHERE id = $1` };

/** What the log keeps of a deleted key. */
const DELETED = { plan: null, label: null, limits: null, readOnly: null, createdAt: null };
const LOG = {
  name: 'list-key-log',
  text: `SELECT to_json(at) AS at, actor, action, key_id AS "keyId", changes FROM key_log
         WHERE $2::text IS NULL OR key_id = $2 ORDER BY id DESC LIMIT $1`,
};

export type KeyStore = ReturnType<typeof createPostgresKeyStore>;

/** Creates the store of API keys. Each change and its entry in the log are written in one step. */
export function createPostgresKeyStore(database: Queryable) {
  return {
    /** Finds a key by the digest of its secret, also if it is revoked or expired. A replaced secret expires earlier. */
    findByDigest: createBatcher({
      async run(digests: readonly string[]) {
        type Found = Row<FoundKey> & { readonly digest: Uint8Array; readonly previousDigest: Uint8Array | null };
        const found = new Map<string, FoundKey>();
        for (const { digest, previousDigest, ...row } of await database.query<Found>(FIND_BY_DIGEST, [
          digests.map(toBytes),
        ])) {
          const record = toRecord(row);
          const { expiresAt, previousEndsAt } = record;
          found.set(toDigest(digest), record);
          if (previousDigest && previousEndsAt)
            found.set(toDigest(previousDigest), { ...record, expiresAt: earliest(previousEndsAt, expiresAt) });
        }
        return digests.map((digest) => found.get(digest));
      },
    }),
    /** Returns a text that changes when any key changes or is deleted. Undefined if the table key_version is empty. */
    async findVersion(): Promise<string | undefined> {
      return (await database.query<{ version: string | null }>(FIND_VERSION, []))[0]?.version ?? undefined;
    },
    find: (id: string) => findOne(FIND, [id]),
    /** Lists keys, the newest first. */
    async list(filter: KeyFilter): Promise<readonly UsedKey[]> {
      return (await database.query<Row<UsedKey>>(LIST, [...toConditions(filter), filter.limit])).map(toRecord);
    },
    async count(filter: KeyFilter): Promise<number> {
      const [row] = await database.query<{ count: number }>(COUNT, toConditions(filter));
      return row?.count ?? 0;
    },
    async create(newKey: NewKey, actor = 'the program', key = generateApiKey()): Promise<CreatedKey> {
      const text = `INSERT INTO api_keys (id, digest, plan, label, per_minute, per_day, expires_at, read_only)
                    VALUES ($3, $4, $5, $6, $7, $8, $9, $10)`;
      const values = [toBytes(digestApiKey(key)), ...toValues(newKey), newKey.readOnly ?? false];
      const created = await change('create', text, [actor, toChanges({}, newKey), generateKeyId(), ...values]);
      return { ...(created as KeyRecord), key };
    },
    /** Replaces the settings of a key. Does nothing if they have changed since `record` was read, or the key is revoked. */
    update(record: KeyRecord, settings: KeySettings, actor: string) {
      // A date of JavaScript has milliseconds.
      const text = `UPDATE api_keys SET plan = $4, label = $5, per_minute = $6, per_day = $7, expires_at = $8
                    WHERE id = $3 AND revoked_at IS NULL
                      AND (plan, label, per_minute, per_day, date_trunc('milliseconds', expires_at))
                          IS NOT DISTINCT FROM ($9::text, $10::text, $11::integer, $12::integer, $13::timestamptz)`;
      const values = [...toValues(settings), ...toValues(record)];
      return change('update', text, [actor, toChanges(record, settings), record.id, ...values]);
    },
    /**
     * Gives a key a new secret. The old secret works for `overlapMs` longer, and a still older one no longer.
     * @param onlyFrom - if given, does nothing unless this is the digest of the newest secret and no older one works
     */
    async rotate(before: KeyRecord, overlapMs: number, actor: string, onlyFrom?: string) {
      const text = `UPDATE api_keys SET digest = $4, previous_digest = digest, previous_ends_at = $5
                    WHERE id = $3 AND ($6::bytea IS NULL
                      OR digest = $6 AND revoked_at IS NULL AND coalesce(previous_ends_at <= now(), true))`;
      const key = generateApiKey();
      const previousEndsAt = earliest(new Date(Date.now() + overlapMs), before.expiresAt);
      const values = [toBytes(digestApiKey(key)), previousEndsAt, onlyFrom && toBytes(onlyFrom)];
      const record = await change('rotate', text, [actor, toChanges(before, { previousEndsAt }), before.id, ...values]);
      return record && { ...record, key, previousEndsAt };
    },
    revoke(id: string, actor: string) {
      const text = 'UPDATE api_keys SET revoked_at = coalesce(revoked_at, now()) WHERE id = $3';
      return change('revoke', text, [actor, '{}', id]);
    },
    /** Deletes a revoked key. Its log and its usage stay. */
    delete(record: KeyRecord, actor: string) {
      const text = 'DELETE FROM api_keys WHERE id = $3 AND revoked_at IS NOT NULL';
      return change('delete', text, [actor, toChanges(record, DELETED), record.id]);
    },
    /** Lifts the ban of a key, on every instance. */
    unban: (id: string, actor: string) =>
      change('unban', 'UPDATE api_keys SET unbanned_at = now() WHERE id = $3', [actor, '{}', id]),
    async listEvents({ id, limit }: KeyEventFilter): Promise<readonly KeyEvent[]> {
      return (await database.query<KeyEvent>(LOG, [limit, id])).map(withDates);
    },
  };

  /** Changes a key and logs it. The first values are the actor, the changes and the id. */
  function change(action: KeyEvent['action'], text: string, values: readonly unknown[]): Promise<UsedKey | undefined> {
    const statement = `WITH changed AS (${text} RETURNING *), noted AS (
        INSERT INTO key_log (actor, action, key_id, changes) SELECT $1, '${action}', id, $2::jsonb FROM changed
      ) SELECT ${WITH_LAST_USE} FROM changed`;
    return findOne({ name: `${action}-key`, text: statement }, values);
  }

  async function findOne(statement: Statement, values: readonly unknown[]): Promise<UsedKey | undefined> {
    const [row] = await database.query<Row<UsedKey>>(statement, values);
    return row && toRecord(row);
  }
}

function toValues({ plan, label = null, limits, expiresAt = null }: NewKey): unknown[] {
  const own = plan === 'enterprise' ? limits : undefined;
  return [plan, label, own?.perMinute ?? null, own?.perDay ?? null, expiresAt];
}

function toConditions({ plan, active, unusedMs, expiringMs }: KeyFilter): unknown[] {
  return [plan, active, unusedMs, expiringMs];
}

function toChanges(before: object, after: object): string {
  const old = before as Readonly<Record<string, unknown>>;
  const changes = Object.entries(after)
    .map(([name, value]) => [name, [old[name] ?? null, (value as unknown) ?? null]] as const)
    .filter(([, [from, to]]) => JSON.stringify(from) !== JSON.stringify(to));
  return JSON.stringify(Object.fromEntries(changes));
}

function toBytes(digest: string): Buffer {
  return Buffer.from(digest, 'base64url');
}

function toDigest(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString('base64url');
}

function earliest(time: Date, end: Date | null): Date {
  return new Date(Math.min(time.getTime(), end?.getTime() ?? Infinity));
}

function toRecord<Key extends Row<KeyRecord>>(row: Key) {
  const { perMinute, perDay, ...record } = withDates(row);
  const plan: Plan = record.plan;
  return { ...record, limits: plan === 'enterprise' ? { perMinute, perDay } : PUBLISHED_LIMITS[plan] };
}
