-- Runs of one speaker's words, as a JSON array, where speaker labels were asked for.
ALTER TABLE transcripts ADD COLUMN utterances TEXT;
