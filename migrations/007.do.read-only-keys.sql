-- A read-only key may not add animals.
ALTER TABLE api_keys ADD COLUMN read_only boolean NOT NULL DEFAULT false;

-- Revoked keys can be deleted.
ALTER TABLE key_log
  DROP CONSTRAINT key_log_action_check,
  ADD CONSTRAINT key_log_action_check CHECK (action IN ('create', 'update', 'rotate', 'revoke', 'unban', 'delete'));

-- Serves pruning.
CREATE INDEX key_log_at ON key_log (at);
