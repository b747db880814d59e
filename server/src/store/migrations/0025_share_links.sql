-- Links that show a transcript to anybody who has them, one a transcript. The secret is hashed.
CREATE TABLE share_links (
    transcript_id TEXT PRIMARY KEY REFERENCES transcripts (id) ON DELETE CASCADE,
    account_id TEXT NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
    secret_hash TEXT NOT NULL UNIQUE,
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL
);
