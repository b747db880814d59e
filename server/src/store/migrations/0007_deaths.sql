-- Attempts that ended with the worker's death. Two of them count as one attempt.
ALTER TABLE transcripts ADD COLUMN deaths BIGINT NOT NULL DEFAULT 0;

-- What the work of an account has reserved, summed up without its rows. It also serves what the index before it did.
CREATE INDEX transcripts_reserved ON transcripts (account_id, status, reserved_cents);
DROP INDEX transcripts_running;
