-- Voices that accounts have made of recordings. `sealed` imitates a person: it is encrypted, with a key that is not in this table.
CREATE TABLE cloned_voices (
    id TEXT PRIMARY KEY,
    account_id TEXT NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
    name TEXT NOT NULL,
    name_key TEXT NOT NULL,
    model TEXT NOT NULL,
    language TEXT NOT NULL,
    sealed TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    UNIQUE (account_id, name_key)
);
