-- The secret that signs an account's webhooks, and the one before it for a day after a rotation. They are encrypted, with a key that is
-- not in this table. `ending` is the end of the secret, by which people recognise it.
CREATE TABLE webhook_secrets (
    account_id TEXT PRIMARY KEY REFERENCES accounts (id) ON DELETE CASCADE,
    sealed TEXT NOT NULL,
    ending TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    previous_sealed TEXT,
    previous_until BIGINT
);
