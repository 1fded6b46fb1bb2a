import { createBatcher } from '../batcher.js';
import type { Queryable, Statement } from './database.js';
import { digestApiKey, generateApiKey, generateKeyId } from '../access/api-key.js';
import type { KeyEvent, KeyRecord, KeyStore, NewKey } from '../access/key-store.js';
import { PUBLISHED_LIMITS, type Plan } from '../access/plans.js';

interface KeyRow {
  readonly id: string;
  readonly digest: Uint8Array;
  readonly plan: Plan;
  readonly label: string | null;
  readonly per_minute: number | null;
  readonly per_day: number | null;
  readonly created_at: Date;
  readonly expires_at: Date | null;
  readonly revoked_at: Date | null;
  readonly unbanned_at: Date | null;
  readonly previous_digest: Uint8Array | null;
  readonly previous_ends_at: Date | null;
}

const COLUMNS =
  'id, digest, plan, label, per_minute, per_day, created_at, expires_at, revoked_at, unbanned_at, previous_digest, previous_ends_at';

const FIND_BY_DIGEST = {
  name: 'find-keys',
  text: `SELECT ${COLUMNS} FROM api_keys WHERE digest = ANY($1::bytea[]) OR previous_digest = ANY($1::bytea[])`,
};
const FIND = { name: 'find-key', text: `SELECT ${COLUMNS} FROM api_keys WHERE id = $1` };

/** Returns a statement that changes a key and logs it. Its first values are the actor, the changes and the id. */
function logged(action: KeyEvent['action'], change: string): Statement {
  return {
    name: `${action}-key`,
    text: `WITH changed AS (${change} RETURNING ${COLUMNS}), noted AS (
             INSERT INTO key_log (actor, action, key_id, changes) SELECT $1, '${action}', id, $2::jsonb FROM changed
           ) SELECT ${COLUMNS} FROM changed`,
  };
}

const CREATE = logged(
  'create',
  `INSERT INTO api_keys (id, digest, plan, label, per_minute, per_day, expires_at) VALUES ($3, $4, $5, $6, $7, $8, $9)`,
);
const UPDATE = logged(
  'update',
  // A date of JavaScript has milliseconds.
  `UPDATE api_keys SET plan = $4, label = $5, per_minute = $6, per_day = $7, expires_at = $8
   WHERE id = $3 AND revoked_at IS NULL
     AND (plan, label, per_minute, per_day, date_trunc('milliseconds', expires_at))
         IS NOT DISTINCT FROM ($9::text, $10::text, $11::integer, $12::integer, $13::timestamptz)`,
);
const ROTATE = logged(
  'rotate',
  `UPDATE api_keys SET digest = $4, previous_digest = digest, previous_ends_at = $5 WHERE id = $3`,
);
const REVOKE = logged('revoke', `UPDATE api_keys SET revoked_at = coalesce(revoked_at, now()) WHERE id = $3`);
const UNBAN = logged('unban', `UPDATE api_keys SET unbanned_at = now() WHERE id = $3`);

/** Creates the store of API keys in a PostgreSQL database, embedded or on a server. */
export function createPostgresKeyStore(database: Queryable): KeyStore {
  return {
    findByDigest: createBatcher({
      async run(digests: readonly string[]) {
        const rows = await database.query<KeyRow>(FIND_BY_DIGEST, [digests.map(toBytes)]);
        const found = new Map<string, KeyRecord>();
        for (const row of rows) {
          found.set(toDigest(row.digest), toRecord(row));
          if (row.previous_digest) found.set(toDigest(row.previous_digest), toPreviousRecord(row));
        }
        return digests.map((digest) => found.get(digest));
      },
    }),
    async find(id) {
      return toFound(await database.query<KeyRow>(FIND, [id]));
    },
    async list({ plan, active = false, after, limit }) {
      // Each combination of filters is a statement of its own, so that each can use the best index.
      const values: unknown[] = [limit];
      const conditions = ['true'];
      if (plan !== undefined) conditions.push(`plan = $${values.push(plan)}`);
      if (active) conditions.push('revoked_at IS NULL AND (expires_at IS NULL OR expires_at > now())');
      if (after !== undefined)
        conditions.push(`(created_at, id) < (SELECT created_at, id FROM api_keys WHERE id = $${values.push(after)})`);
      const text = `SELECT ${COLUMNS} FROM api_keys WHERE ${conditions.join(' AND ')}
                    ORDER BY created_at DESC, id DESC LIMIT $1`;
      const filters = Object.entries({ plan, active: active || undefined, after }).filter(([, value]) => value);
      const name = ['list-keys', ...filters.map(([filter]) => filter)].join('-');
      return (await database.query<KeyRow>({ name, text }, values)).map(toRecord);
    },
    async create(newKey, actor = 'the program', key = generateApiKey()) {
      const digest = toBytes(digestApiKey(key));
      const values = [actor, toChanges({}, newKey), generateKeyId(), digest, ...toValues(newKey)];
      return { ...(toFound(await database.query<KeyRow>(CREATE, values)) as KeyRecord), key };
    },
    async update(record, settings, actor) {
      const values = [actor, toChanges(record, settings), record.id, ...toValues(settings), ...toValues(record)];
      return toFound(await database.query<KeyRow>(UPDATE, values));
    },
    async rotate(id, previousEndsAt, actor) {
      const key = generateApiKey();
      const values = [actor, toChanges({}, { previousEndsAt }), id, toBytes(digestApiKey(key)), previousEndsAt];
      const record = toFound(await database.query<KeyRow>(ROTATE, values));
      return record && { ...record, key };
    },
    revoke: async (id, actor) => toFound(await database.query<KeyRow>(REVOKE, [actor, '{}', id])),
    unban: async (id, actor) => toFound(await database.query<KeyRow>(UNBAN, [actor, '{}', id])),
    async listEvents({ id, limit }) {
      const text = `SELECT at, actor, action, key_id AS "keyId", changes FROM key_log
                    ${id === undefined ? '' : 'WHERE key_id = $2'} ORDER BY id DESC LIMIT $1`;
      return database.query<KeyEvent>({ name: `list-key-log${id === undefined ? '' : '-of-key'}`, text }, [
        limit,
        ...(id === undefined ? [] : [id]),
      ]);
    },
  };
}

function toValues({ plan, label = null, limits, expiresAt = null }: NewKey): unknown[] {
  const own = plan === 'enterprise' ? limits : undefined;
  return [plan, label, own?.perMinute ?? null, own?.perDay ?? null, expiresAt];
}

/** Returns the properties that differ, as JSON text. */
function toChanges(before: object, after: object): string {
  const old = before as Readonly<Record<string, unknown>>;
  const changes = Object.entries(after)
    .map(([name, value]) => [name, [old[name] ?? null, (value as unknown) ?? null]] as const)
    .filter(([, [from, to]]) => JSON.stringify(from) !== JSON.stringify(to));
  return JSON.stringify(Object.fromEntries(changes));
}

function toFound([row]: readonly KeyRow[]): KeyRecord | undefined {
  return row && toRecord(row);
}

/** The record of a key as the holder of its previous secret sees it: it ends earlier. */
function toPreviousRecord(row: KeyRow): KeyRecord {
  const record = toRecord(row);
  const end = row.previous_ends_at as Date;
  return { ...record, expiresAt: record.expiresAt && record.expiresAt < end ? record.expiresAt : end };
}

function toBytes(digest: string): Buffer {
  return Buffer.from(digest, 'base64url');
}

function toDigest(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString('base64url');
}

function toRecord(row: KeyRow): KeyRecord {
  return {
    id: row.id,
    plan: row.plan,
    label: row.label,
    limits:
      row.plan === 'enterprise'
        ? { perMinute: row.per_minute as number, perDay: row.per_day as number }
        : PUBLISHED_LIMITS[row.plan],
    createdAt: row.created_at,
    expiresAt: row.expires_at,
    revokedAt: row.revoked_at,
    unbannedAt: row.unbanned_at,
  };
}
