-- One schema for SQLite and PostgreSQL: text, BIGINT and DOUBLE PRECISION only; times in ms since 1970, flags 0 or 1.

CREATE TABLE secrets (
    name TEXT PRIMARY KEY,
    value TEXT NOT NULL
);

CREATE TABLE accounts (
    id TEXT PRIMARY KEY,
    email TEXT NOT NULL UNIQUE,
    created_at BIGINT NOT NULL,
    free_credit_cents BIGINT NOT NULL,
    credit_balance_cents BIGINT NOT NULL CHECK (credit_balance_cents >= 0),
    subscribed BIGINT NOT NULL DEFAULT 0,
    -- The payment provider's names for the customer and the subscription.
    customer TEXT,
    subscription TEXT
);

CREATE TABLE members (
    account_id TEXT NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
    email TEXT NOT NULL,
    role TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (account_id, email)
);

CREATE TABLE invitations (
    id TEXT PRIMARY KEY,
    account_id TEXT NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
    email TEXT NOT NULL,
    token_hash TEXT NOT NULL UNIQUE,
    created_at BIGINT NOT NULL,
    accepted_at BIGINT
);

CREATE TABLE api_keys (
    id TEXT PRIMARY KEY,
    account_id TEXT NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
    name TEXT NOT NULL,
    secret_hash TEXT NOT NULL UNIQUE,
    created_at BIGINT NOT NULL,
    revoked_at BIGINT
);

-- One number, which changes whenever a key is revoked or an account changes.
CREATE TABLE access_version (
    version BIGINT NOT NULL
);
INSERT INTO access_version (version) VALUES (0);

CREATE TABLE uploads (
    id TEXT PRIMARY KEY,
    account_id TEXT NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
    filename TEXT NOT NULL,
    content_type TEXT NOT NULL,
    declared_bytes BIGINT,
    size_bytes BIGINT,
    status TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL
);
CREATE INDEX uploads_by_status ON uploads (status, created_at);

CREATE TABLE transcripts (
    id TEXT PRIMARY KEY,
    account_id TEXT NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
    status TEXT NOT NULL,
    model TEXT NOT NULL,
    title TEXT,
    language_code TEXT,
    audio_url TEXT,
    upload_id TEXT,
    -- What was asked for beyond the columns, as JSON.
    options TEXT NOT NULL,
    webhook_url TEXT,
    -- What came out.
    text TEXT,
    words TEXT,
    confidence DOUBLE PRECISION,
    duration_ms BIGINT,
    error TEXT,
    created_at BIGINT NOT NULL,
    completed_at BIGINT,
    -- The job.
    attempts BIGINT NOT NULL DEFAULT 0,
    not_before BIGINT NOT NULL DEFAULT 0,
    lease TEXT,
    lease_until BIGINT,
    progress_ms BIGINT NOT NULL DEFAULT 0
);
CREATE INDEX transcripts_by_account ON transcripts (account_id, created_at, id);
CREATE INDEX transcripts_by_status ON transcripts (status, created_at, id);
CREATE INDEX transcripts_running ON transcripts (account_id, status);
CREATE INDEX transcripts_by_upload ON transcripts (upload_id);

CREATE TABLE idempotency_keys (
    account_id TEXT NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
    idempotency_key TEXT NOT NULL,
    body_hash TEXT NOT NULL,
    transcript_id TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (account_id, idempotency_key)
);

-- A job or session is billed once: its id is unique here.
CREATE TABLE usage_events (
    id TEXT PRIMARY KEY,
    account_id TEXT NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
    sku TEXT NOT NULL,
    unit_type TEXT NOT NULL,
    quantity_ms BIGINT NOT NULL,
    retail_cost_cents BIGINT NOT NULL,
    credit_applied_cents BIGINT NOT NULL,
    billable_cents BIGINT NOT NULL,
    transcript_id TEXT UNIQUE,
    session_id TEXT UNIQUE,
    created_at BIGINT NOT NULL,
    -- When the payment provider was told of billable_cents.
    reported_at BIGINT
);
CREATE INDEX usage_by_account ON usage_events (account_id, created_at, id);
CREATE INDEX usage_unreported ON usage_events (reported_at, billable_cents);

-- Notifications: written with the status that they tell of, delivered later.
CREATE TABLE webhooks (
    id TEXT PRIMARY KEY,
    account_id TEXT NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
    transcript_id TEXT NOT NULL,
    event TEXT NOT NULL,
    url TEXT NOT NULL,
    state TEXT NOT NULL,
    attempts BIGINT NOT NULL DEFAULT 0,
    due_at BIGINT NOT NULL,
    lease TEXT,
    last_error TEXT,
    created_at BIGINT NOT NULL
);
CREATE INDEX webhooks_due ON webhooks (state, due_at);

-- Objects that nothing names any more: written with what let go of them, deleted later.
CREATE TABLE orphans (
    object_key TEXT PRIMARY KEY,
    created_at BIGINT NOT NULL
);

-- Payment notices that were acted on, so that a repeated one changes nothing.
CREATE TABLE payment_notices (
    id TEXT PRIMARY KEY,
    created_at BIGINT NOT NULL
);
