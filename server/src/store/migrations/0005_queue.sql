-- The first queued job of an account.
CREATE INDEX transcripts_queue ON transcripts (account_id, status, created_at, id);
