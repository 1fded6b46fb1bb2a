import type { DeprecatedCaller, Usage, UsageFilter } from '../access/usage.js';
import { withDates, type Queryable, type Statement } from './database.js';
import type { UsageCount } from './usage-counter.js';

/** Adds to the counts, in the order of the key, so that instances never deadlock. */
const ADD = {
  name: 'add-usage',
  text: `
    INSERT INTO usage AS total (key_id, starts_at, hours, client, operation, deprecated, requests, cost, errors, refused, last_at)
    SELECT "keyId", to_timestamp(day / 1000), 24, client, operation, deprecated,
           requests, cost, errors, refused, to_timestamp("lastAt" / 1000)
    FROM json_to_recordset($1::json) AS entry (
      "keyId" text, day float8, client text, operation text, deprecated text,
      requests bigint, cost bigint, errors bigint, refused bigint, "lastAt" float8
    )
    ORDER BY 1, 2, 4, 5, 6
    ON CONFLICT (key_id, starts_at, hours, client, operation, deprecated) DO UPDATE
    SET requests = total.requests + excluded.requests,
        cost = total.cost + excluded.cost,
        errors = total.errors + excluded.errors,
        refused = total.refused + excluded.refused,
        last_at = greatest(total.last_at, excluded.last_at)`,
};

const FORGET = {
  name: 'forget-usage',
  text: `DELETE FROM usage WHERE ctid = ANY (ARRAY(
           SELECT ctid FROM usage WHERE starts_at < now() - interval '366 days' ORDER BY starts_at LIMIT 1000
         )) RETURNING 1`,
};

const DEPRECATED = {
  name: 'list-deprecated',
  text: `
    SELECT key_id AS "keyId", label, plan, to_json(expires_at) AS "expiresAt",
           to_json(revoked_at) AS "revokedAt", nullif(client, '') AS client,
           CASE WHEN deprecated LIKE '% %' THEN 'rest' ELSE 'graphql' END AS through, deprecated AS coordinate,
           calls, to_json(last_at) AS "lastAt"
    FROM (
      SELECT key_id, client, deprecated, sum(requests)::float8 AS calls, max(last_at) AS last_at FROM usage
      WHERE deprecated <> '' AND starts_at >= $1::timestamptz - interval '1 day' AND last_at >= $1::timestamptz
      GROUP BY key_id, client, deprecated
    ) AS callers LEFT JOIN api_keys ON id = key_id
    ORDER BY last_at DESC, key_id, client, deprecated`,
};

/** The label and plan of a key are looked up for the few rows of the result alone. */
function listUsage(name: string, condition: string): Statement {
  return {
    name,
    text: `
      SELECT key_id AS "keyId", label, plan, client, operation, requests, cost, errors, refused, to_json(last_at) AS "lastAt"
      FROM (
        SELECT key_id, client, operation, sum(requests)::float8 AS requests, sum(cost)::float8 AS cost,
               sum(errors)::float8 AS errors, sum(refused)::float8 AS refused, max(last_at) AS last_at
        FROM usage WHERE starts_at >= date_trunc('day', $2::timestamptz, 'UTC') ${condition}
        GROUP BY key_id, client, operation ORDER BY cost DESC, requests DESC LIMIT $1
      ) AS sums LEFT JOIN LATERAL (SELECT label, plan FROM api_keys WHERE id = key_id LIMIT 1) AS named ON true
      ORDER BY cost DESC, requests DESC`,
  };
}

const LIST = listUsage('list-usage', '');
const LIST_OF_KEY = listUsage('list-usage-of-key', 'AND key_id = $3');

export type PostgresUsage = ReturnType<typeof createPostgresUsage>;

/** Creates the usage of keys, which is counted by day, in UTC. */
export function createPostgresUsage(database: Queryable) {
  return {
    /** Adds to the counts: all of these or none. */
    async add(counts: readonly UsageCount[]): Promise<void> {
      await database.query(ADD, [JSON.stringify(counts)]);
    },
    /** Deletes days that are older than a year. */
    async prune(): Promise<void> {
      while ((await database.query(FORGET, [])).length > 0);
    },
    /** Adds usage up since the beginning of a day, the highest cost first. */
    async list({ id, since, limit }: UsageFilter): Promise<readonly Usage[]> {
      const rows = await (id === undefined
        ? database.query<Usage>(LIST, [limit, since])
        : database.query<Usage>(LIST_OF_KEY, [limit, since, id]));
      return rows.map(withDates);
    },
    /** Lists who called what is deprecated since a time, the latest caller first. */
    async listDeprecated(since: Date | undefined): Promise<readonly DeprecatedCaller[]> {
      return (await database.query<DeprecatedCaller>(DEPRECATED, [since ?? '-infinity'])).map(withDates);
    },
  };
}
