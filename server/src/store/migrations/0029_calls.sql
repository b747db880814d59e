-- Telephone calls that are expected: a row each, gone once the call comes. The transcript of a call has the id of its row.
CREATE TABLE calls (
    transcript_id TEXT PRIMARY KEY,
    account_id TEXT NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
    -- The plan of the call, as JSON.
    plan TEXT NOT NULL,
    expires_at BIGINT NOT NULL
);
CREATE INDEX calls_by_expiry ON calls (expires_at);
