-- What was added under an Idempotency-Key, so that the same request again adds nothing and gets the same answer.
CREATE TABLE idempotent_adds (
  caller_id text NOT NULL,
  -- SHA-256 of the key: what a client chose may mean something outside of this store.
  key_digest bytea NOT NULL,
  -- SHA-256 of what was asked for.
  fingerprint bytea NOT NULL,
  pet_id bigint NOT NULL,
  created_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (caller_id, key_digest)
);

-- Serves the pruning of what is older than a day.
CREATE INDEX idempotent_adds_created_at ON idempotent_adds (created_at);
