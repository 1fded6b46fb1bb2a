import type { Plan } from '../access/plans.js';
import type { Queryable } from './database.js';
import type { CallCount } from './call-counter.js';
import { NO_NAMES, OTHER_CLIENTS, type DeprecatedCaller, type DeprecatedCallers } from '../access/deprecated-calls.js';

/** The most client names stored per key. Further clients are counted together. */
const MAX_NAMES = 50;

const NO_NAMES_SQL = `(${NO_NAMES.map((name) => `'${name}'`).join()})`;

/**
 * Adds to the counts. Several instances may run it at once without losing any. Rows are locked in key order, so that
 * instances never deadlock. Instances that insert new names at the same moment do not see each other's names, so together
 * they may exceed the limit.
 */
const ADD = {
  name: 'add-deprecated-calls',
  text: `
    WITH counted AS (
      SELECT * FROM json_to_recordset($1::json) AS entry (
        key_id text, client text, coordinate text, through text, calls bigint, first_at timestamptz, last_at timestamptz
      )
    ), known AS (
      SELECT DISTINCT key_id, client FROM deprecated_calls
      WHERE key_id IN (SELECT key_id FROM counted) AND client NOT IN ${NO_NAMES_SQL}
    ), new AS (
      SELECT key_id, client,
             row_number() OVER (PARTITION BY key_id ORDER BY client)
               + (SELECT count(*) FROM known WHERE known.key_id = unknown.key_id) AS place
      FROM (
        SELECT key_id, client FROM counted WHERE client NOT IN ${NO_NAMES_SQL} EXCEPT SELECT key_id, client FROM known
      ) AS unknown
    ), named AS (
      SELECT key_id, CASE WHEN place > $2::int THEN '${OTHER_CLIENTS}' ELSE client END AS client, coordinate, through,
             calls, first_at, last_at
      FROM counted LEFT JOIN new USING (key_id, client)
    )
    INSERT INTO deprecated_calls AS total (key_id, client, coordinate, through, calls, first_at, last_at)
    SELECT key_id, client, coordinate, through, sum(calls), min(first_at), max(last_at) FROM named
    GROUP BY key_id, client, coordinate, through
    ORDER BY key_id, client, coordinate
    ON CONFLICT (key_id, client, coordinate) DO UPDATE
    SET calls = total.calls + excluded.calls,
        first_at = least(total.first_at, excluded.first_at),
        last_at = greatest(total.last_at, excluded.last_at)`,
};

const LIST = {
  name: 'list-deprecated-calls',
  text: `
    SELECT key_id, label, plan, expires_at, revoked_at, client, coordinate, through, calls, first_at, last_at
    FROM deprecated_calls LEFT JOIN api_keys ON id = key_id
    WHERE last_at >= coalesce($1::timestamptz, '-infinity')
    ORDER BY last_at DESC, key_id, client, coordinate`,
};

interface CallerRow {
  readonly key_id: string;
  readonly label: string | null;
  readonly plan: Plan | null;
  readonly expires_at: Date | null;
  readonly revoked_at: Date | null;
  readonly client: string;
  readonly coordinate: string;
  readonly through: DeprecatedCaller['through'];
  /** An int8, as text. */
  readonly calls: string;
  readonly first_at: Date;
  readonly last_at: Date;
}

/** Creates the counts in a PostgreSQL database, embedded or on a server. */
export function createPostgresDeprecatedCalls(
  database: Queryable,
): DeprecatedCallers & { add(counts: readonly CallCount[]): Promise<void> } {
  return {
    async add(counts) {
      await database.query(ADD, [JSON.stringify(counts.map(fromCount)), MAX_NAMES]);
    },
    async list(since) {
      return (await database.query<CallerRow>(LIST, [since ?? null])).map(toCaller);
    },
  };
}

function fromCount({ keyId, client = '', coordinate, through, calls, firstAt, lastAt }: CallCount): object {
  return {
    key_id: keyId,
    client,
    coordinate,
    through,
    calls,
    first_at: new Date(firstAt).toISOString(),
    last_at: new Date(lastAt).toISOString(),
  };
}

function toCaller(row: CallerRow): DeprecatedCaller {
  return {
    keyId: row.key_id,
    label: row.label,
    plan: row.plan,
    expiresAt: row.expires_at,
    revokedAt: row.revoked_at,
    client: row.client === '' ? null : row.client,
    through: row.through,
    coordinate: row.coordinate,
    calls: Number(row.calls),
    firstAt: row.first_at,
    lastAt: row.last_at,
  };
}
