-- Who requests what: one row for each hour and, after a week, for each day.
CREATE TABLE usage (
  -- No reference: a key that somebody deleted must not keep the other counts from being written.
  key_id text NOT NULL,
  starts_at timestamptz NOT NULL,
  hours smallint NOT NULL CHECK (hours IN (1, 24)),
  -- What the client calls itself; empty when it gives no name.
  client text NOT NULL,
  -- The name or type of a GraphQL operation, or a REST route such as GET /v1/pets.
  operation text NOT NULL,
  -- The deprecated fields or the deprecated route that it used, such as Query.pet; empty if none.
  deprecated text NOT NULL,
  requests bigint NOT NULL CHECK (requests > 0),
  cost bigint NOT NULL,
  errors bigint NOT NULL,
  -- Errors because of a limit or a ban.
  refused bigint NOT NULL,
  last_at timestamptz NOT NULL,
  PRIMARY KEY (key_id, starts_at, hours, client, operation, deprecated)
);

-- Serves pruning, and reports on all keys.
CREATE INDEX usage_starts_at ON usage (hours, starts_at);
CREATE INDEX usage_deprecated ON usage (starts_at) WHERE deprecated <> '';

INSERT INTO usage
SELECT key_id, date_trunc('day', last_at, 'UTC'), 24, client, '(other)', coordinate, calls, calls, 0, 0, last_at
FROM deprecated_calls;
DROP TABLE deprecated_calls;
