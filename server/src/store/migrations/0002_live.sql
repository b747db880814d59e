-- Live sessions that are connected: a row each, gone once the session is billed.
CREATE TABLE live_sessions (
    id TEXT PRIMARY KEY,
    account_id TEXT NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
    model TEXT NOT NULL,
    node TEXT NOT NULL,
    began_at BIGINT NOT NULL,
    seen_at BIGINT NOT NULL
);
CREATE INDEX live_sessions_by_node ON live_sessions (node, seen_at);
