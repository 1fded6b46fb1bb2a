-- Also while session_replication_role is replica, or the keys come by logical replication.
ALTER TABLE api_keys ENABLE ALWAYS TRIGGER change_key_version;
