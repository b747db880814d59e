-- Mail: written with its cause, sent later. What a letter says, with the secret of its link, goes once the letter is sent.
CREATE TABLE mails (
    id TEXT PRIMARY KEY,
    account_id TEXT REFERENCES accounts (id) ON DELETE CASCADE,
    recipient TEXT NOT NULL,
    letter TEXT NOT NULL,
    state TEXT NOT NULL,
    attempts BIGINT NOT NULL DEFAULT 0,
    due_at BIGINT NOT NULL,
    wait_ms BIGINT,
    lease TEXT,
    last_error TEXT,
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL
);
CREATE INDEX mails_due ON mails (state, due_at);

-- Links that create the account of an address, which they verify.
CREATE TABLE sign_up_links (
    secret_hash TEXT PRIMARY KEY,
    email TEXT NOT NULL,
    expires_at BIGINT NOT NULL
);

-- The cost of a calendar month at which the owner gets a mail, and the last month in which one was written.
ALTER TABLE accounts ADD COLUMN budget_cents BIGINT;
ALTER TABLE accounts ADD COLUMN budget_month TEXT;
