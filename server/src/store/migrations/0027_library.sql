-- Tags of transcripts. `tag_key` is the tag in lower case.
CREATE TABLE transcript_tags (
    transcript_id TEXT NOT NULL REFERENCES transcripts (id) ON DELETE CASCADE,
    tag_key TEXT NOT NULL,
    tag TEXT NOT NULL,
    account_id TEXT NOT NULL,
    PRIMARY KEY (transcript_id, tag_key)
);
CREATE INDEX transcript_tags_by_account ON transcript_tags (account_id, tag_key, transcript_id);

-- The orders of the list beside that of creation.
CREATE INDEX transcripts_by_title ON transcripts (account_id, COALESCE(title_key, ''), id);
CREATE INDEX transcripts_by_length ON transcripts (account_id, COALESCE(duration_ms, -1), id);

-- Options that an account keeps for its uploads, as JSON.
CREATE TABLE upload_presets (
    account_id TEXT NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
    name TEXT NOT NULL,
    options TEXT NOT NULL,
    PRIMARY KEY (account_id, name)
);
