import { createBatcher } from '../batcher.js';
import type { Queryable } from './database.js';
import { digestApiKey, generateApiKey, generateKeyId } from '../access/api-key.js';
import type { KeyRecord, KeyStore } from '../access/key-store.js';
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
}

const COLUMNS = 'id, digest, plan, label, per_minute, per_day, created_at, expires_at, revoked_at';

const FIND = { name: 'find-keys', text: `SELECT ${COLUMNS} FROM api_keys WHERE digest = ANY($1::bytea[])` };
const LIST = { name: 'list-keys', text: `SELECT ${COLUMNS} FROM api_keys ORDER BY created_at, id` };
const CREATE = {
  name: 'create-key',
  text: `INSERT INTO api_keys (id, digest, plan, label, per_minute, per_day, expires_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7) RETURNING ${COLUMNS}`,
};
const REVOKE = {
  name: 'revoke-key',
  text: `UPDATE api_keys SET revoked_at = coalesce(revoked_at, now()) WHERE id = $1 RETURNING ${COLUMNS}`,
};

/** Creates the store of API keys in a PostgreSQL database, embedded or on a server. */
export function createPostgresKeyStore(database: Queryable): KeyStore {
  return {
    findByDigest: createBatcher({
      async run(digests: readonly string[]) {
        const rows = await database.query<KeyRow>(FIND, [digests.map(toBytes)]);
        const found = new Map(rows.map((row) => [toDigest(row.digest), toRecord(row)]));
        return digests.map((digest) => found.get(digest));
      },
    }),
    async create({ plan, label, limits, expiresAt }, key = generateApiKey()) {
      const values = [
        generateKeyId(),
        toBytes(digestApiKey(key)),
        plan,
        label ?? null,
        limits?.perMinute ?? null,
        limits?.perDay ?? null,
        expiresAt ?? null,
      ];
      const [row] = await database.query<KeyRow>(CREATE, values);
      if (row === undefined) throw new Error('INSERT returned no row');
      return { ...toRecord(row), key };
    },
    async list() {
      return (await database.query<KeyRow>(LIST, [])).map(toRecord);
    },
    async revoke(id) {
      const [row] = await database.query<KeyRow>(REVOKE, [id]);
      return row && toRecord(row);
    },
  };
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
  };
}
