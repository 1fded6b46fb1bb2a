-- Usage is counted by day. The columns stay, for instances and exports of the version before.
WITH hourly AS (
  DELETE FROM usage WHERE hours = 1 RETURNING *
)
INSERT INTO usage AS total
SELECT key_id, date_trunc('day', starts_at, 'UTC'), 24, client, operation, deprecated,
       sum(requests)::bigint, sum(cost)::bigint, sum(errors)::bigint, sum(refused)::bigint, max(last_at)
FROM hourly GROUP BY 1, 2, 4, 5, 6
ON CONFLICT (key_id, starts_at, hours, client, operation, deprecated) DO UPDATE
SET requests = total.requests + excluded.requests,
    cost = total.cost + excluded.cost,
    errors = total.errors + excluded.errors,
    refused = total.refused + excluded.refused,
    last_at = greatest(total.last_at, excluded.last_at);

ALTER TABLE usage ALTER COLUMN hours SET DEFAULT 24;

-- Reports and pruning no longer ask for hours.
DROP INDEX usage_starts_at;
CREATE INDEX usage_starts_at ON usage (starts_at);
