import type { Log } from '../observability/log.js';
import type { Metrics } from '../observability/metrics.js';
import { repeat } from '../repeat.js';
import type { Queryable } from './database.js';

const HOUR_MS = 3_600_000;
const IDEMPOTENCY_DAYS = 1;
const USAGE_DAYS = 366;

const AGES = { idempotent_adds: 'created_at', usage: 'starts_at', key_log: 'at' };

/** Deletes rows that are older than so many days, in batches. */
export async function deleteOldRows(database: Queryable, table: keyof typeof AGES, days: number): Promise<void> {
  const age = AGES[table];
  // An idempotency key that is used again at this moment stays.
  const lock = table === 'idempotent_adds' ? 'FOR UPDATE SKIP LOCKED' : '';
  // Without the array, PostgreSQL would join the table with itself, and read the whole index for each batch.
  const text = `DELETE FROM ${table} WHERE ctid = ANY (ARRAY(
                  SELECT ctid FROM ${table} WHERE ${age} < now() - $1 * interval '24 hours'
                  ORDER BY ${age} LIMIT 1000 ${lock}
                )) RETURNING 1`;
  while ((await database.query({ name: `prune-${table}`, text }, [days])).length > 0);
}

interface PruningOptions {
  readonly mayWrite: () => Promise<boolean>;
  readonly keyLogDays: number | undefined;
  readonly log: Log;
  readonly metrics: Metrics;
}

/**
 * Deletes expired rows from time to time.
 * @returns the function that stops this
 */
export function startPruning(database: Queryable, { mayWrite, keyLogDays, log, metrics }: PruningOptions) {
  let prunedAt = performance.now();
  const sincePruned = (): number => (performance.now() - prunedAt) / 1_000;
  metrics.gauge('store_pruning_age_seconds', 'Time since all expired rows were last deleted', sincePruned);
  return repeat({
    run: async () => {
      if (await mayWrite()) {
        await deleteOldRows(database, 'idempotent_adds', IDEMPOTENCY_DAYS);
        await deleteOldRows(database, 'usage', USAGE_DAYS);
        if (keyLogDays !== undefined) await deleteOldRows(database, 'key_log', keyLogDays);
      }
      prunedAt = performance.now();
    },
    // At random, so that instances spread out.
    pauseMs: () => HOUR_MS * (0.5 + Math.random() / 2),
    onError: (err) => log.warn({ err }, 'cannot delete expired rows; the next run tries again'),
  });
}
