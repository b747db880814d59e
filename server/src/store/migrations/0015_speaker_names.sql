-- Names that people gave to the speakers of a transcript on its page, by the labels of the API.
CREATE TABLE speaker_names (
    transcript_id TEXT NOT NULL REFERENCES transcripts (id) ON DELETE CASCADE,
    label TEXT NOT NULL,
    name TEXT NOT NULL,
    PRIMARY KEY (transcript_id, label)
);
