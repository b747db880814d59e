-- Nothing has written to these.
DROP TABLE members;
DROP TABLE invitations;

-- An account has one owner, whose address is the account's, and members. An address belongs to one account.
ALTER TABLE users ADD COLUMN role TEXT NOT NULL DEFAULT 'owner';

-- The person who made the key on the dashboard. The keys of a member end with the membership.
ALTER TABLE api_keys ADD COLUMN user_id TEXT REFERENCES users (id) ON DELETE SET NULL;
CREATE INDEX api_keys_by_user ON api_keys (user_id);

-- Invitations that nobody has accepted yet. The link holds the secret.
CREATE TABLE invitations (
    id TEXT PRIMARY KEY,
    account_id TEXT NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
    email TEXT NOT NULL,
    secret_hash TEXT NOT NULL UNIQUE,
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    UNIQUE (account_id, email)
);
