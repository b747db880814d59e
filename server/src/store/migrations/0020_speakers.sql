-- People whom an account's transcripts may name. `sealed` identifies a voice: it is encrypted, with a key that is not in this table.
CREATE TABLE speakers (
    id TEXT PRIMARY KEY,
    account_id TEXT NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
    name TEXT NOT NULL,
    name_key TEXT NOT NULL,
    model TEXT NOT NULL,
    speech_ms BIGINT NOT NULL,
    sealed TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    UNIQUE (account_id, name_key)
);
