-- The index of the words of transcripts. A row's number follows the time of its transcript's creation.
CREATE TABLE searched_transcripts (
    place BIGINT PRIMARY KEY,
    transcript_id TEXT NOT NULL UNIQUE REFERENCES transcripts (id) ON DELETE CASCADE,
    account_id TEXT NOT NULL,
    tokens TSVECTOR NOT NULL,
    -- A sentence a line, after its start in milliseconds and a tab.
    sentences TEXT NOT NULL
);
CREATE INDEX searched_transcripts_tokens ON searched_transcripts USING GIN (tokens);
CREATE INDEX searched_transcripts_by_account ON searched_transcripts (account_id, place);

-- Transcripts that are to be indexed, those of later changes first. `change` differs with each change.
CREATE TABLE unindexed_transcripts (
    transcript_id TEXT PRIMARY KEY REFERENCES transcripts (id) ON DELETE CASCADE,
    change BIGINT NOT NULL
);
CREATE INDEX unindexed_transcripts_by_change ON unindexed_transcripts (change);
-- Triggers, because nodes of an older version write transcripts, too.
CREATE FUNCTION note_unindexed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO unindexed_transcripts VALUES (NEW.id, (random() * 9e15)::BIGINT + 1)
    ON CONFLICT (transcript_id) DO UPDATE SET change = excluded.change;
    RETURN NULL;
END $$;
CREATE TRIGGER transcripts_unindexed_insert AFTER INSERT ON transcripts
FOR EACH ROW EXECUTE FUNCTION note_unindexed();
CREATE TRIGGER transcripts_unindexed_update AFTER UPDATE OF title, words ON transcripts
FOR EACH ROW WHEN (NEW.title IS DISTINCT FROM OLD.title OR NEW.words IS DISTINCT FROM OLD.words)
EXECUTE FUNCTION note_unindexed();
INSERT INTO unindexed_transcripts SELECT id, 0 FROM transcripts;
