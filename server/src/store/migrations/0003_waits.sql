-- How far ahead an end was set when it was set: what lies further ahead was set before the clock was put back. In the
-- row, because nodes may have other settings.
ALTER TABLE transcripts ADD COLUMN lease_ms BIGINT;
ALTER TABLE webhooks ADD COLUMN wait_ms BIGINT;

-- Reports that the payment provider refused are sent again later and later.
ALTER TABLE usage_events ADD COLUMN report_attempts BIGINT NOT NULL DEFAULT 0;
ALTER TABLE usage_events ADD COLUMN report_due BIGINT NOT NULL DEFAULT 0;

-- When the newest notice of the subscription was written, by the provider's clock: an older one comes too late.
ALTER TABLE accounts ADD COLUMN subscription_at BIGINT NOT NULL DEFAULT 0;

-- A signed URL may bring an object back until it expires: it is deleted once more then.
ALTER TABLE orphans ADD COLUMN due_at BIGINT NOT NULL DEFAULT 0;
ALTER TABLE orphans ADD COLUMN until_at BIGINT NOT NULL DEFAULT 0;
