-- How loud a recording is over time, for the player of the page: a character for each level. Transcripts from before have none.
CREATE TABLE waveforms (
    transcript_id TEXT PRIMARY KEY REFERENCES transcripts (id) ON DELETE CASCADE,
    level_ms BIGINT NOT NULL,
    levels TEXT NOT NULL
);
