-- Who calls what is deprecated, so that they can be told before it goes.
CREATE TABLE deprecated_calls (
  -- No reference: a key that somebody deleted must not keep the other counts from being written.
  key_id text NOT NULL,
  -- What the client calls itself; empty when it gives no name.
  client text NOT NULL,
  -- Such as Query.pet or GET /v1/pets/{petId}.
  coordinate text NOT NULL,
  through text NOT NULL CHECK (through IN ('graphql', 'rest')),
  calls bigint NOT NULL CHECK (calls > 0),
  first_at timestamptz NOT NULL,
  last_at timestamptz NOT NULL,
  PRIMARY KEY (key_id, client, coordinate)
);
