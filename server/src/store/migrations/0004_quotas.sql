-- The quota of an account counts its uploads.
CREATE INDEX uploads_by_account ON uploads (account_id, status);
-- Retention looks for old transcripts.
CREATE INDEX transcripts_by_end ON transcripts (completed_at);
