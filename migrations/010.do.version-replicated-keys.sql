-- Logical replication fires triggers of rows alone, so for keys that come by it, the trigger of statements does nothing.
CREATE TRIGGER change_key_version_of_row AFTER UPDATE OR DELETE ON api_keys
  FOR EACH ROW EXECUTE FUNCTION change_key_version();
ALTER TABLE api_keys ENABLE REPLICA TRIGGER change_key_version_of_row;

-- Once in a transaction, however many rows it changes.
CREATE OR REPLACE FUNCTION change_key_version() RETURNS trigger
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$
BEGIN
  EXECUTE format(
    'UPDATE %I.key_version SET version = gen_random_uuid() WHERE xmin <> pg_current_xact_id()::xid', TG_TABLE_SCHEMA
  );
  RETURN NULL;
END $$;
