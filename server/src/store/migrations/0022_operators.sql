-- The accounts whose owners operate the service where the settings name none: the first one, and the first that signs up.
-- Accounts of an older version are not among them, as anybody may have signed up.
ALTER TABLE accounts ADD COLUMN operator BIGINT NOT NULL DEFAULT 0;
