-- How often a transcript was edited.
ALTER TABLE transcripts ADD COLUMN version BIGINT NOT NULL DEFAULT 0;

-- The recognised words of a transcript that was edited.
CREATE TABLE originals (
    transcript_id TEXT PRIMARY KEY REFERENCES transcripts (id) ON DELETE CASCADE,
    text TEXT,
    words TEXT,
    utterances TEXT
);
