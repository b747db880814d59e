-- The analysis of a transcript, as a JSON object with the fields that the API shows.
ALTER TABLE transcripts ADD COLUMN analysis TEXT;
