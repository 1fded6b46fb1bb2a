import { runSql } from './sql.js';

const MILLION = 1_000_000;

/** Adds a million keys with a day of usage, hour after hour. Nobody knows their secrets. */
export async function addMillionKeys(url: string): Promise<void> {
  await runSql(
    url,
    `INSERT INTO api_keys (id, digest, plan, label, created_at)
     SELECT 'key_' || lpad(i::text, 12, '0'), sha256(i::text::bytea), (ARRAY['free', 'pro', 'business'])[1 + i % 3],
            'customer ' || i, now() - i * interval '30 seconds'
     FROM generate_series(1, ${MILLION}) AS i`,
  );
  await runSql(
    url,
    `INSERT INTO usage
     SELECT 'key_' || lpad(i::text, 12, '0'), date_trunc('hour', now()) - (i % 24) * interval '1 hour', 1, 'web', 'GET /v1/pets', '',
            1 + i % 50, 1 + i % 50, 0, 0, now() - (i % 24) * interval '1 hour'
     FROM generate_series(1, ${MILLION}) AS i ORDER BY i % 24 DESC`,
  );
  await runSql(
    url,
    `INSERT INTO key_log (actor, action, key_id, changes)
     SELECT 'root', 'create', 'key_' || lpad(i::text, 12, '0'), '{}' FROM generate_series(1, ${MILLION}) AS i`,
  );
  await runSql(url, 'ANALYZE');
}

/** Adds a million idempotency keys that have expired. */
export async function addMillionOldIdempotencyKeys(url: string): Promise<void> {
  await runSql(
    url,
    `INSERT INTO idempotent_adds
     SELECT 'key_' || i % 1000, sha256(i::text::bytea), sha256('x'), i, now() - interval '25 hours' - i * interval '10 ms'
     FROM generate_series(1, ${MILLION}) AS i`,
  );
  // As autovacuum does within a minute: PostgreSQL plans otherwise once it knows how many rows there are.
  await runSql(url, 'ANALYZE');
}
