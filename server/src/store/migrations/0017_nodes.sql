-- The processes of the service: each writes its row again and again, and deletes it when it stops.
CREATE TABLE nodes (
    id TEXT PRIMARY KEY,
    host TEXT NOT NULL,
    address TEXT NOT NULL,
    role TEXT NOT NULL,
    version TEXT NOT NULL,
    device TEXT NOT NULL,
    memory_bytes BIGINT,
    started_at BIGINT NOT NULL,
    seen_at BIGINT NOT NULL
);
