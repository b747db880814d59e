//! The processes of the service, as they tell of themselves.

use sqlx::Row as _;

use super::{Result, Store};
use crate::clock;
use crate::ids::NodeId;

/// A process that has not reported for this time is forgotten.
const FORGOTTEN_MS: i64 = 24 * 3_600_000;

/// A process of the service.
#[derive(Clone, Debug)]
pub struct Node {
    pub id: NodeId,
    /// The name of the machine, and the address of the API.
    pub host: String,
    pub address: String,
    pub role: String,
    pub version: String,
    pub device: String,
    pub memory_bytes: Option<i64>,
    pub started_at: i64,
}

/// A process, when it last reported, and its live sessions.
#[derive(Clone, Debug)]
pub struct ListedNode {
    pub node: Node,
    pub seen_at: i64,
    pub sessions: i64,
    /// Its last pull of a checkpoint, as JSON.
    pub pull: Option<String>,
}

impl Store {
    /// Records that a process runs. Where no other process can be, its predecessors are forgotten.
    pub async fn note_node(&self, node: &Node) -> Result<()> {
        let now = clock::now_ms();
        let before = if self.is_shared() { now - FORGOTTEN_MS } else { now + FORGOTTEN_MS };
        let mut tx = self.begin().await?;
        sqlx::query("DELETE FROM nodes WHERE id <> $1 AND seen_at < $2")
            .bind(node.id.as_str())
            .bind(before)
            .execute(&mut *tx)
            .await?;
        sqlx::query(
            "INSERT INTO nodes (id, host, address, role, version, device, memory_bytes, started_at, seen_at)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
             ON CONFLICT (id) DO UPDATE SET memory_bytes = excluded.memory_bytes, seen_at = excluded.seen_at",
        )
        .bind(node.id.as_str())
        .bind(&node.host)
        .bind(&node.address)
        .bind(&node.role)
        .bind(&node.version)
        .bind(&node.device)
        .bind(node.memory_bytes)
        .bind(node.started_at)
        .bind(now)
        .execute(&mut *tx)
        .await?;
        tx.commit().await
    }

    /// Records the state of a process's pull.
    pub async fn note_pull(&self, id: &NodeId, pull: &str) -> Result<()> {
        let update = sqlx::query("UPDATE nodes SET pull = $1 WHERE id = $2").bind(pull).bind(id.as_str());
        update.execute(&self.write).await.map(|_| ())
    }

    /// Forgets a process, which stops.
    pub async fn forget_node(&self, id: &NodeId) -> Result<()> {
        sqlx::query("DELETE FROM nodes WHERE id = $1").bind(id.as_str()).execute(&self.write).await.map(|_| ())
    }

    /// The processes, the oldest first.
    pub async fn nodes(&self) -> Result<Vec<ListedNode>> {
        let rows = sqlx::query(
            "SELECT id, host, address, role, version, device, memory_bytes, started_at, seen_at, pull,
                    (SELECT COUNT(*) FROM live_sessions l WHERE l.node = n.id) AS sessions
             FROM nodes n ORDER BY started_at, id LIMIT 200",
        )
        .fetch_all(&self.read)
        .await?;
        rows.iter()
            .map(|row| {
                let node = Node {
                    id: row.try_get::<String, _>("id")?.into(),
                    host: row.try_get("host")?,
                    address: row.try_get("address")?,
                    role: row.try_get("role")?,
                    version: row.try_get("version")?,
                    device: row.try_get("device")?,
                    memory_bytes: row.try_get("memory_bytes")?,
                    started_at: row.try_get("started_at")?,
                };
                Ok(ListedNode {
                    node,
                    seen_at: row.try_get("seen_at")?,
                    sessions: row.try_get("sessions")?,
                    pull: row.try_get("pull")?,
                })
            })
            .collect()
    }
}
