-- The index of the words of transcripts. A row's number follows the time of its transcript's creation.
CREATE TABLE searched_transcripts (
    place INTEGER PRIMARY KEY,
    transcript_id TEXT NOT NULL UNIQUE REFERENCES transcripts (id) ON DELETE CASCADE,
    account_id TEXT NOT NULL,
    -- Each once, separated by spaces; the first stands for the account.
    tokens TEXT NOT NULL,
    -- A sentence a line, after its start in milliseconds and a tab.
    sentences TEXT NOT NULL
);
-- Tokens are made by the program, so they are only separated here.
CREATE VIRTUAL TABLE transcript_tokens USING fts5(
    tokens, content = 'searched_transcripts', content_rowid = 'place', detail = 'none', tokenize = 'ascii',
    prefix = '3 4'
);
-- Deleted tokens do not stay in the file.
INSERT INTO transcript_tokens (transcript_tokens, rank) VALUES ('secure-delete', 1);
CREATE TRIGGER searched_transcripts_insert AFTER INSERT ON searched_transcripts BEGIN
    INSERT INTO transcript_tokens (rowid, tokens) VALUES (NEW.place, NEW.tokens);
END;
CREATE TRIGGER searched_transcripts_delete AFTER DELETE ON searched_transcripts BEGIN
    INSERT INTO transcript_tokens (transcript_tokens, rowid, tokens) VALUES ('delete', OLD.place, OLD.tokens);
END;

-- Transcripts that are to be indexed, those of later changes first. `change` differs with each change.
CREATE TABLE unindexed_transcripts (
    transcript_id TEXT PRIMARY KEY REFERENCES transcripts (id) ON DELETE CASCADE,
    change BIGINT NOT NULL
);
CREATE INDEX unindexed_transcripts_by_change ON unindexed_transcripts (change);
CREATE TRIGGER transcripts_unindexed_insert AFTER INSERT ON transcripts BEGIN
    INSERT INTO unindexed_transcripts VALUES (NEW.id, abs(random() / 2) + 1);
END;
CREATE TRIGGER transcripts_unindexed_update AFTER UPDATE OF title, words ON transcripts
WHEN NEW.title IS NOT OLD.title OR NEW.words IS NOT OLD.words BEGIN
    INSERT INTO unindexed_transcripts VALUES (NEW.id, abs(random() / 2) + 1)
    ON CONFLICT (transcript_id) DO UPDATE SET change = excluded.change;
END;
INSERT INTO unindexed_transcripts SELECT id, 0 FROM transcripts;
