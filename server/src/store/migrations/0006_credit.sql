-- The part of the credit that work in progress has reserved.
ALTER TABLE transcripts ADD COLUMN reserved_cents BIGINT NOT NULL DEFAULT 0;
ALTER TABLE live_sessions ADD COLUMN reserved_cents BIGINT NOT NULL DEFAULT 0;
CREATE INDEX live_sessions_by_account ON live_sessions (account_id);

-- The key that the session's token was made with. None for sessions of older versions.
ALTER TABLE live_sessions ADD COLUMN key_id TEXT;
