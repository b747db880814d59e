-- People who sign in to the dashboard. A user belongs to one account.
CREATE TABLE users (
    id TEXT PRIMARY KEY,
    account_id TEXT NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
    email TEXT NOT NULL UNIQUE,
    password_hash TEXT NOT NULL,
    created_at BIGINT NOT NULL
);
CREATE INDEX users_by_account ON users (account_id);

-- Sign-ins. The cookie holds the secret. The key stands for the sign-in where the API asks for one.
CREATE TABLE sign_ins (
    secret_hash TEXT PRIMARY KEY,
    user_id TEXT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    key_id TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL
);
CREATE INDEX sign_ins_by_user ON sign_ins (user_id);

-- One-time links that set a password.
CREATE TABLE password_links (
    secret_hash TEXT PRIMARY KEY,
    account_id TEXT NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
    email TEXT NOT NULL,
    expires_at BIGINT NOT NULL
);

ALTER TABLE api_keys ADD COLUMN last_used_at BIGINT;
-- 1 for the key of a sign-in, which has no secret.
ALTER TABLE api_keys ADD COLUMN of_sign_in BIGINT NOT NULL DEFAULT 0;
CREATE INDEX api_keys_by_account ON api_keys (account_id, of_sign_in, created_at);

-- The beginning of the title in lower case, and an index in which the dashboard's list finds all that it searches. The title itself
-- is too long for an index of PostgreSQL.
ALTER TABLE transcripts ADD COLUMN title_key TEXT;
UPDATE transcripts SET title_key = lower(substr(title, 1, 200));
CREATE INDEX transcripts_list ON transcripts (account_id, created_at, id, status, language_code, title_key);
DROP INDEX transcripts_by_account;
-- The languages of an account.
CREATE INDEX transcripts_by_language ON transcripts (account_id, language_code);

-- The sums of an account's usage, without its rows.
CREATE INDEX usage_sums ON usage_events (account_id, created_at, sku, retail_cost_cents, billable_cents);
