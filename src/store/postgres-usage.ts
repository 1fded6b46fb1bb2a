import { OTHER, type DeprecatedCaller, type Usage, type UsageFilter, type UsageGroup } from '../access/usage.js';
import { fromMillis, toMillis, type Millis, type Queryable } from './database.js';
import type { UsageCount } from './usage-counter.js';

/** The most pairs of client and operation per key and hour, or per key and day. The others are added up as `(other)`. */
const MAX_NAMES = 50;

/** The names of a row if its pair of client and operation is in the first places. REST routes keep their name. */
const NAMES = `CASE WHEN place > $1::int THEN '${OTHER}' ELSE client END AS client,
               CASE WHEN place > $1::int AND operation NOT LIKE '% %' THEN '${OTHER}' ELSE operation END AS operation`;
/**
 * Sums as double precision, which is exact far enough and which the database returns as a number. The sum of a bigint
 * would be numeric, which is much slower.
 */
const SUMS = `sum(requests::float8) AS requests, sum(cost::float8) AS cost, sum(errors::float8) AS errors,
              sum(refused::float8) AS refused, max(last_at) AS last_at`;

/** Inserts the rows of `named`, in the order of the key, so that instances never deadlock. */
const INSERT = `
    INSERT INTO usage AS total (key_id, starts_at, hours, client, operation, deprecated, requests, cost, errors, refused, last_at)
    SELECT key_id, starts_at, hours, client, operation, deprecated, ${SUMS} FROM named
    GROUP BY key_id, starts_at, hours, client, operation, deprecated
    ORDER BY key_id, starts_at, hours, client, operation, deprecated
    ON CONFLICT (key_id, starts_at, hours, client, operation, deprecated) DO UPDATE
    SET requests = total.requests + excluded.requests,
        cost = total.cost + excluded.cost,
        errors = total.errors + excluded.errors,
        refused = total.refused + excluded.refused,
        last_at = greatest(total.last_at, excluded.last_at)`;

/**
 * Adds to the counts. Instances that insert new names at the same moment do not see each other's names, so together
 * they may exceed the limit.
 */
const ADD = {
  name: 'add-usage',
  text: `
    WITH counted AS (
      SELECT "keyId" AS key_id, to_timestamp("startsAt" / 1000) AS starts_at, 1 AS hours, client, operation, deprecated,
             requests, cost, errors, refused, to_timestamp("lastAt" / 1000) AS last_at
      FROM json_to_recordset($2::json) AS entry (
        "keyId" text, "startsAt" float8, client text, operation text, deprecated text,
        requests bigint, cost bigint, errors bigint, refused bigint, "lastAt" float8
      )
    ), known AS (
      SELECT DISTINCT key_id, starts_at, client, operation FROM usage
      WHERE (key_id, starts_at) IN (SELECT key_id, starts_at FROM counted) AND hours = 1
    ), sizes AS (
      SELECT key_id, starts_at, count(*) AS size FROM known GROUP BY key_id, starts_at
    ), new AS (
      SELECT key_id, starts_at, client, operation,
             row_number() OVER (PARTITION BY key_id, starts_at ORDER BY client, operation) + coalesce(size, 0) AS place
      FROM (
        SELECT key_id, starts_at, client, operation FROM counted
        EXCEPT SELECT key_id, starts_at, client, operation FROM known
      ) AS unknown LEFT JOIN sizes USING (key_id, starts_at)
    ), named AS (
      SELECT key_id, starts_at, hours, ${NAMES}, deprecated, requests, cost, errors, refused, last_at
      FROM counted LEFT JOIN new USING (key_id, starts_at, client, operation)
    )
    ${INSERT}`,
};

/** How many rows one statement turns into days, beside those of its last key and day. It has little time. */
const MAX_ROWS_TO_DAYS = 2_000;

/**
 * Turns the hours of some keys and days into days. The names with the highest cost are kept. One instance does this at
 * a time: the number of the lock is arbitrary. The limit is no parameter, because PostgreSQL would expect that a
 * parameter lets a tenth of all rows through, and would read the whole table.
 */
const TO_DAYS = {
  name: 'usage-to-days',
  text: `
    WITH turn AS MATERIALIZED (
      SELECT pg_try_advisory_xact_lock(7236012031) AS is_mine
    ), old AS (
      SELECT key_id, starts_at FROM usage
      WHERE hours = 1 AND starts_at < date_trunc('day', now() - interval '7 days', 'UTC') AND (SELECT is_mine FROM turn)
      ORDER BY starts_at LIMIT 100
    ), sizes AS (
      SELECT key_id, day, (
        SELECT count(*) FROM usage
        WHERE usage.key_id = old_days.key_id AND hours = 1 AND starts_at >= day AND starts_at < day + interval '24 hours'
      ) AS size FROM (SELECT DISTINCT key_id, date_trunc('day', starts_at, 'UTC') AS day FROM old) AS old_days
    ), days AS (
      SELECT key_id, day FROM (
        SELECT key_id, day, size, sum(size) OVER (ORDER BY day, key_id) AS total FROM sizes
      ) AS totals WHERE total - size < ${MAX_ROWS_TO_DAYS}
    ), deleted AS (
      DELETE FROM usage USING days
      WHERE usage.key_id = days.key_id AND hours = 1 AND starts_at >= day AND starts_at < day + interval '24 hours'
      RETURNING usage.*, day
    ), pairs AS (
      SELECT key_id, day, client, operation,
             row_number() OVER (PARTITION BY key_id, day ORDER BY sum(cost) DESC, sum(requests) DESC) AS place
      FROM deleted GROUP BY key_id, day, client, operation
    ), named AS (
      SELECT key_id, day AS starts_at, 24 AS hours, ${NAMES}, deprecated, requests, cost, errors, refused, last_at
      FROM deleted JOIN pairs USING (key_id, day, client, operation)
    )
    ${INSERT} RETURNING 1`,
};

const FORGET = {
  name: 'forget-usage',
  text: `DELETE FROM usage WHERE ctid = ANY (ARRAY(
           SELECT ctid FROM usage WHERE hours = 24 AND starts_at < now() - interval '366 days' ORDER BY starts_at LIMIT 1000
         )) RETURNING 1`,
};

const DEPRECATED = {
  name: 'list-deprecated',
  text: `
    SELECT key_id AS "keyId", label, plan, expires_at AS "expiresAt", revoked_at AS "revokedAt", nullif(client, '') AS client,
           CASE WHEN deprecated LIKE '% %' THEN 'rest' ELSE 'graphql' END AS through, deprecated AS coordinate,
           calls, last_at AS "lastAt"
    FROM (
      SELECT key_id, client, deprecated, sum(requests)::float8 AS calls, max(last_at) AS last_at FROM usage
      WHERE deprecated <> '' AND starts_at >= $1::timestamptz - interval '1 day' AND last_at >= $1::timestamptz
      GROUP BY key_id, client, deprecated
    ) AS callers LEFT JOIN api_keys ON id = key_id
    ORDER BY last_at DESC, key_id, client, deprecated`,
};

const LAST_USES = {
  name: 'find-last-uses',
  text: `
    SELECT id, (
      SELECT ${toMillis('max(last_at)')} FROM usage WHERE key_id = id AND starts_at = (SELECT max(starts_at) FROM usage WHERE key_id = id)
    ) AS "lastUsedAt" FROM unnest($1::text[]) AS id`,
};

/** What each group adds up by, as a column. */
const GROUPS: Readonly<Record<UsageGroup, string>> = {
  key: 'key_id',
  client: 'client',
  operation: 'operation',
  day: `date_trunc('day', starts_at, 'UTC') AS day`,
  hour: 'starts_at AS hour',
};

/** Without a limit of its own, this would read all keys, because PostgreSQL does not know how few rows it is for. */
const NAMED_KEY = 'LEFT JOIN LATERAL (SELECT label, plan FROM api_keys WHERE id = key_id LIMIT 1) AS named ON true';

export type PostgresUsage = ReturnType<typeof createPostgresUsage>;

/** Creates the usage of keys in a PostgreSQL database, embedded or on a server. */
export function createPostgresUsage(database: Queryable) {
  return {
    /** Adds to the counts: all of these or none. */
    async add(counts: readonly UsageCount[]): Promise<void> {
      await database.query(ADD, [MAX_NAMES, JSON.stringify(counts)]);
    },
    /** Turns hours that are older than a week into days, and deletes days that are older than a year. */
    async prune(): Promise<void> {
      try {
        while ((await database.query(TO_DAYS, [MAX_NAMES])).length > 0);
      } finally {
        while ((await database.query(FORGET, [])).length > 0);
      }
    },
    /** Adds usage up, the highest cost first. */
    list({ id, since, by, limit }: UsageFilter): Promise<readonly Usage[]> {
      const columns = by.map((group) => GROUPS[group]);
      const names = columns.map((column) => column.split(' AS ').at(-1) as string);
      const order = [...names.filter((name) => name === 'day' || name === 'hour'), 'cost', 'requests'];
      const text = `
        SELECT ${names.map((name) => (name === 'key_id' ? 'key_id AS "keyId", label, plan' : name)).join()},
               requests, cost, errors, refused, last_at AS "lastAt"
        FROM (
          SELECT ${columns.join()}, ${SUMS} FROM usage
          WHERE last_at >= $2::timestamptz AND (
            hours = 1 AND starts_at > $2::timestamptz - interval '1 hour'
            OR hours = 24 AND starts_at > $2::timestamptz - interval '24 hours'
          )
            ${id === undefined ? '' : 'AND key_id = $3'}
          GROUP BY ${names.join()} ORDER BY ${order.join(' DESC, ')} DESC LIMIT $1
        ) AS sums ${by.includes('key') ? NAMED_KEY : ''}
        ORDER BY ${order.join(' DESC, ')} DESC`;
      const name = `list-usage-by-${by.join('-')}${id === undefined ? '' : '-of-key'}`;
      return database.query<Usage>({ name, text }, [limit, since, ...(id === undefined ? [] : [id])]);
    },
    /** Lists who called what is deprecated since a time, the latest caller first. */
    listDeprecated(since: Date | undefined): Promise<readonly DeprecatedCaller[]> {
      return database.query<DeprecatedCaller>(DEPRECATED, [since ?? '-infinity']);
    },
    /** Finds when keys were last used. A key that was not used for a year is missing. */
    async findLastUses(keyIds: readonly string[]): Promise<ReadonlyMap<string, Date>> {
      const rows = await database.query<{ id: string; lastUsedAt: Millis | null }>(LAST_USES, [keyIds]);
      return new Map(rows.flatMap(({ id, lastUsedAt }) => (lastUsedAt ? [[id, fromMillis(lastUsedAt)] as const] : [])));
    },
  };
}
