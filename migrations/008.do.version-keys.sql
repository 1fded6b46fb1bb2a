-- Its one row changes when a key changes or is deleted, so that servers need not look up every key again. A number could
-- come back after the loss of a server.
CREATE TABLE key_version (
  id boolean PRIMARY KEY DEFAULT true CHECK (id),
  version uuid NOT NULL DEFAULT gen_random_uuid()
);
INSERT INTO key_version DEFAULT VALUES;

-- Whoever may read or change keys has not been granted this table.
CREATE FUNCTION key_version() RETURNS text LANGUAGE sql STABLE SECURITY DEFINER SET search_path FROM CURRENT
  AS 'SELECT version::text FROM key_version';

CREATE FUNCTION change_key_version() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$
BEGIN
  EXECUTE format('UPDATE %I.key_version SET version = gen_random_uuid()', TG_TABLE_SCHEMA);
  RETURN NULL;
END $$;

CREATE TRIGGER change_key_version AFTER UPDATE OR DELETE OR TRUNCATE ON api_keys
  FOR EACH STATEMENT EXECUTE FUNCTION change_key_version();
