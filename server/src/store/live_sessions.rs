//! Connected live sessions. A row is deleted when its session is billed.

use sqlx::Row as _;

use super::usage::{self, NewUsage};
use super::{Result, Store};
use crate::clock;
use crate::ids::{AccountId, NodeId, SessionId};

/// A connected session.
#[derive(Clone, Debug)]
pub struct LiveSession {
    pub id: SessionId,
    pub account: AccountId,
    pub model: String,
    pub began_at: i64,
    /// The last heartbeat of its node.
    pub seen_at: i64,
}

impl Store {
    /// Records the start of a session.
    pub async fn begin_session(&self, session: &LiveSession, node: &NodeId) -> Result<()> {
        sqlx::query(
            "INSERT INTO live_sessions (id, account_id, model, node, began_at, seen_at) VALUES ($1, $2, $3, $4, $5, $5)",
        )
        .bind(session.id.as_str())
        .bind(session.account.as_str())
        .bind(&session.model)
        .bind(node.as_str())
        .bind(session.began_at)
        .execute(&self.write)
        .await
        .map(|_| ())
    }

    /// Deletes a session that did not start.
    pub async fn delete_session(&self, session: &LiveSession) -> Result<()> {
        sqlx::query("DELETE FROM live_sessions WHERE id = $1")
            .bind(session.id.as_str())
            .execute(&self.write)
            .await
            .map(|_| ())
    }

    /// Records a heartbeat of all sessions of a node.
    pub async fn heartbeat_sessions(&self, node: &NodeId, now: i64) -> Result<()> {
        sqlx::query("UPDATE live_sessions SET seen_at = $1 WHERE node = $2")
            .bind(now)
            .bind(node.as_str())
            .execute(&self.write)
            .await
            .map(|_| ())
    }

    /// Sessions of other nodes.
    pub async fn sessions_of_others(&self, node: &NodeId) -> Result<Vec<LiveSession>> {
        let rows = sqlx::query("SELECT id, account_id, model, began_at, seen_at FROM live_sessions WHERE node <> $1")
            .bind(node.as_str())
            .fetch_all(&self.read)
            .await?;
        rows.iter()
            .map(|row| {
                Ok(LiveSession {
                    id: row.try_get::<String, _>("id")?.into(),
                    account: row.try_get::<String, _>("account_id")?.into(),
                    model: row.try_get("model")?,
                    began_at: row.try_get("began_at")?,
                    seen_at: row.try_get("seen_at")?,
                })
            })
            .collect()
    }

    /// Ends a session and records its usage, once.
    pub async fn end_session(
        &self,
        session: &LiveSession,
        unit_type: &str,
        connected_ms: i64,
        cents: i64,
    ) -> Result<()> {
        let mut tx = self.begin().await?;
        let ended =
            sqlx::query("DELETE FROM live_sessions WHERE id = $1").bind(session.id.as_str()).execute(&mut *tx).await?;
        if ended.rows_affected() > 0 {
            let event = NewUsage {
                account: &session.account,
                sku: &session.model,
                unit_type,
                quantity_ms: connected_ms,
                cents,
                transcript: None,
                session: Some(session.id.as_str()),
            };
            usage::record(&mut tx, self.dialect, &event, clock::now_ms()).await?;
        }
        tx.commit().await
    }
}
