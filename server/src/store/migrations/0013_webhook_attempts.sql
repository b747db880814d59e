-- What each attempt to deliver a webhook came to. They are kept as long as the webhook.
CREATE TABLE webhook_attempts (
    webhook_id TEXT NOT NULL REFERENCES webhooks (id) ON DELETE CASCADE,
    attempt BIGINT NOT NULL,
    began_at BIGINT NOT NULL,
    took_ms BIGINT NOT NULL,
    -- The status and the beginning of the answer, or the error where none came.
    status BIGINT,
    answer TEXT NOT NULL,
    error TEXT,
    PRIMARY KEY (webhook_id, attempt)
);

-- Attempts before somebody had it sent again: the delays begin anew then.
ALTER TABLE webhooks ADD COLUMN attempts_before BIGINT NOT NULL DEFAULT 0;

-- The list of the dashboard. Ids sort by creation.
CREATE INDEX webhooks_by_account ON webhooks (account_id, id);

-- Those of a deleted transcript go with it.
CREATE INDEX webhooks_by_transcript ON webhooks (transcript_id);
