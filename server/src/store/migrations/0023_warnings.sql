-- What a client should know of a transcript, as a JSON array of sentences. NULL where there is nothing.
ALTER TABLE transcripts ADD COLUMN warnings TEXT;
