import type { Counts, KeyUsage, Usage, UsageFilter } from '../access/usage.js';
import { withDates, type Queryable, type Statement } from './database.js';
import type { UsageCount } from './usage-counter.js';

/**
 * Adds to the counts, in the order of the key, so that instances never deadlock. Its commit waits for no standby: the
 * counts would be stored although the wait fails, and then be written again.
 */
const ADD = {
  name: 'add-usage',
  text: `
    INSERT INTO usage AS total (key_id, starts_at, client, operation, deprecated, requests, cost, errors, refused, last_at)
    SELECT "keyId", to_timestamp(day / 1000), client, operation, deprecated,
           requests, cost, errors, refused, to_timestamp("lastAt" / 1000)
    FROM json_to_recordset($1::json) AS entry (
      "keyId" text, day float8, client text, operation text, deprecated text,
      requests bigint, cost bigint, errors bigint, refused bigint, "lastAt" float8
    ), set_config('synchronous_commit', 'local', true)
    ORDER BY 1, 2, 3, 4, 5
    ON CONFLICT (key_id, starts_at, hours, client, operation, deprecated) DO UPDATE
    SET requests = total.requests + excluded.requests,
        cost = total.cost + excluded.cost,
        errors = total.errors + excluded.errors,
        refused = total.refused + excluded.refused,
        last_at = greatest(total.last_at, excluded.last_at)`,
};

const COUNTS = ['requests', 'cost', 'errors', 'refused'];
const addUp = COUNTS.map((name) => `sum(${name}::float8) AS ${name}`).join();

function listUsage(name: string, columns: string, order = 'cost DESC, requests DESC', condition = ''): Statement {
  return {
    name,
    text: `
      SELECT key_id AS "keyId", label, plan ${columns}, ${COUNTS.join()}, to_json(last_at) AS "lastAt"
      FROM (
        SELECT key_id ${columns}, ${addUp}, max(last_at) AS last_at FROM usage
        WHERE starts_at >= date_trunc('day', $2::timestamptz, 'UTC')
          AND ($3::text IS NULL OR key_id = $3) AND ($4::boolean IS NOT TRUE OR deprecated <> '') ${condition}
        GROUP BY key_id ${columns} ORDER BY ${order} LIMIT $1
      ) AS sums LEFT JOIN api_keys ON id = key_id
      ORDER BY ${order}`,
  };
}

const COLUMNS = ', client, operation, deprecated';
const LIST = listUsage('list-usage', COLUMNS);
/** On its own, because one plan for all filters would read the rows of all keys. */
const LIST_OF_KEY = listUsage('list-usage-of-key', COLUMNS, undefined, 'AND key_id = $3');
const LIST_KEYS = listUsage('list-used-keys', '');
const LIST_REFUSED = listUsage('list-refused-keys', '', 'refused DESC', 'AND refused > 0');

/** With the number of keys that worked at the end of each day. */
const LIST_DAYS = {
  name: 'list-days',
  text: `
    WITH days AS (
      SELECT generate_series($1::timestamptz, now(), '24 hours') AS day
    ), used AS (
      SELECT date_trunc('day', starts_at, 'UTC') AS day, ${addUp}
      FROM (SELECT starts_at, ${addUp} FROM usage WHERE starts_at >= $1 GROUP BY 1) AS times GROUP BY 1
    ), changed AS (
      SELECT greatest(date_trunc('day', at, 'UTC'), $1) AS day, sum(change) AS change
      FROM (
        SELECT created_at, 1 FROM api_keys UNION ALL SELECT least(revoked_at, expires_at), -1 FROM api_keys
      ) AS changes (at, change)
      WHERE at <= now() GROUP BY 1
    )
    SELECT to_json(day) AS "startsAt", ${COUNTS.map((name) => `coalesce(${name}, 0) AS ${name}`).join()},
           coalesce(sum(change) OVER (ORDER BY day), 0)::int AS keys
    FROM days LEFT JOIN used USING (day) LEFT JOIN changed USING (day) ORDER BY day`,
};

export interface DayUsage extends Counts {
  readonly startsAt: Date;
  /** How many keys worked at its end. */
  readonly keys: number;
}

const LIST_DAILY = {
  name: 'list-daily-usage',
  text: `
    SELECT to_char(starts_at AT TIME ZONE 'UTC', 'YYYY-MM-DD') AS day, nullif(client, '') AS client, operation,
           ${addUp},
           coalesce(sum(requests) FILTER (WHERE deprecated <> ''), 0)::float8 AS "deprecatedCalls",
           coalesce(jsonb_agg(DISTINCT deprecated) FILTER (WHERE deprecated <> ''), '[]') AS deprecated
    FROM usage WHERE key_id = $1 AND starts_at >= $2
    GROUP BY 1, 2, 3 ORDER BY 1 DESC, 5 DESC, 4 DESC, 3, 2 LIMIT $3`,
};

export type PostgresUsage = ReturnType<typeof createPostgresUsage>;

/** Creates the usage of keys, which is counted by day, in UTC. */
export function createPostgresUsage(database: Queryable) {
  return {
    async add(counts: readonly UsageCount[]): Promise<void> {
      await database.query(ADD, [JSON.stringify(counts)]);
    },
    /** Adds usage up, the highest cost first. */
    async list({ id, since, deprecated, limit }: UsageFilter): Promise<readonly Usage[]> {
      const statement = id === undefined ? LIST : LIST_OF_KEY;
      return (await database.query<Usage>(statement, [limit, since, id, deprecated])).map(withDates);
    },
    /** Lists the keys with the highest cost, or those refused most, with the counts of what was sometimes refused. */
    async listKeys({ since, limit }: UsageFilter, isRefused = false): Promise<readonly KeyUsage[]> {
      const statement = isRefused ? LIST_REFUSED : LIST_KEYS;
      return (await database.query<KeyUsage>(statement, [limit, since, null, null])).map(withDates);
    },
    /** Lists each day since the beginning of one, the earliest first. */
    async listDays(since: Date): Promise<readonly DayUsage[]> {
      return (await database.query<DayUsage>(LIST_DAYS, [since])).map(withDates);
    },
    /** See `OwnKeys.listUsage`. */
    listDaily: (keyId: string, since: Date, limit: number) => database.query<object>(LIST_DAILY, [keyId, since, limit]),
  };
}
