//! Connected live sessions. A row is deleted when its session is billed.

use sqlx::Row as _;

use super::usage::{self, NewUsage};
use super::{Allowance, Dialect, Result, Store};
use crate::clock;
use crate::ids::{AccountId, KeyId, NodeId, SessionId};

/// A connected session.
#[derive(Clone, Debug)]
pub struct LiveSession {
    pub id: SessionId,
    pub account: AccountId,
    pub model: String,
    /// Its start and the last heartbeat of its node, ms by the node's monotonic clock. Only their difference has a meaning.
    pub began_at: i64,
    pub seen_at: i64,
}

/// The result of beginning a session.
#[derive(Clone, Copy, Debug)]
pub enum Admission {
    Admitted,
    /// The key of its token was revoked.
    Revoked,
    /// The credit does not cover the estimate.
    NoCredit(Allowance),
}

impl Store {
    /// Records the start of a session if its key is valid, and reserves its estimated cost.
    pub async fn begin_session(
        &self,
        session: &LiveSession,
        node: &NodeId,
        key: &KeyId,
        reserved_cents: i64,
    ) -> Result<Admission> {
        // The lock makes a revocation wait, so that it finds this session.
        let sql = match self.dialect {
            Dialect::Sqlite => "SELECT id FROM api_keys WHERE id = $1 AND revoked_at IS NULL",
            Dialect::Postgres => "SELECT id FROM api_keys WHERE id = $1 AND revoked_at IS NULL FOR SHARE",
        };
        let mut tx = self.begin().await?;
        if sqlx::query(sql).bind(key.as_str()).fetch_optional(&mut *tx).await?.is_none() {
            return Ok(Admission::Revoked);
        }
        let allowance = self.locked_allowance(&mut tx, &session.account).await?;
        if !allowance.allows(reserved_cents) {
            return Ok(Admission::NoCredit(allowance));
        }
        sqlx::query(
            "INSERT INTO live_sessions (id, account_id, model, node, began_at, seen_at, key_id, reserved_cents)
             VALUES ($1, $2, $3, $4, $5, $5, $6, $7)",
        )
        .bind(session.id.as_str())
        .bind(session.account.as_str())
        .bind(&session.model)
        .bind(node.as_str())
        .bind(session.began_at)
        .bind(key.as_str())
        .bind(reserved_cents)
        .execute(&mut *tx)
        .await?;
        tx.commit().await?;
        Ok(Admission::Admitted)
    }

    /// Reserves more for a session, which lasts longer than was estimated.
    pub async fn raise_session_reservation(&self, session: &SessionId, cents: i64) -> Result<()> {
        sqlx::query("UPDATE live_sessions SET reserved_cents = $1 WHERE id = $2")
            .bind(cents)
            .bind(session.as_str())
            .execute(&self.write)
            .await
            .map(|_| ())
    }

    /// Changes the model of a session.
    pub async fn change_session_model(&self, session: &SessionId, model: &str) -> Result<()> {
        sqlx::query("UPDATE live_sessions SET model = $1 WHERE id = $2")
            .bind(model)
            .bind(session.as_str())
            .execute(&self.write)
            .await
            .map(|_| ())
    }

    /// The sessions of a node whose keys were revoked.
    pub async fn revoked_sessions(&self, node: &NodeId) -> Result<Vec<SessionId>> {
        let ids: Vec<String> = sqlx::query_scalar(
            "SELECT l.id FROM live_sessions l JOIN api_keys k ON k.id = l.key_id
             WHERE l.node = $1 AND k.revoked_at IS NOT NULL",
        )
        .bind(node.as_str())
        .fetch_all(&self.read)
        .await?;
        Ok(ids.into_iter().map(SessionId::from).collect())
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
