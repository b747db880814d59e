-- How often a transcript was edited.
ALTER TABLE transcripts ADD COLUMN version BIGINT NOT NULL DEFAULT 0;

-- What was recognised, of a transcript whose words were edited.
CREATE TABLE originals (
    transcript_id TEXT PRIMARY KEY REFERENCES transcripts (id) ON DELETE CASCADE,
    text TEXT,
    words TEXT,
    utterances TEXT
);
