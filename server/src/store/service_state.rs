//! Queues and live sessions of the whole service, for its operator.

use sqlx::Row as _;

use super::{Result, Store};

/// Work of all accounts.
#[derive(Clone, Debug)]
pub struct ServiceState {
    pub queued: i64,
    pub processing: i64,
    /// When the transcript that has waited longest was created.
    pub oldest_queued_at: Option<i64>,
    /// Webhooks and letters that are to be sent.
    pub webhooks: i64,
    pub mails: i64,
    /// Live sessions by model.
    pub sessions: Vec<(String, i64)>,
}

impl Store {
    /// The state now.
    pub async fn service_state(&self) -> Result<ServiceState> {
        let (queued, processing) = self.queue_depth().await?;
        let row = sqlx::query(
            "SELECT (SELECT MIN(created_at) FROM transcripts WHERE status = 'queued') AS oldest_queued_at,
                    (SELECT COUNT(*) FROM webhooks WHERE state = 'pending') AS webhooks,
                    (SELECT COUNT(*) FROM mails WHERE state = 'pending') AS mails",
        )
        .fetch_one(&self.read)
        .await?;
        let sessions =
            sqlx::query("SELECT model, COUNT(*) AS sessions FROM live_sessions GROUP BY model ORDER BY model")
                .fetch_all(&self.read)
                .await?;
        let session = |row: &sqlx::any::AnyRow| Ok((row.try_get("model")?, row.try_get("sessions")?));
        Ok(ServiceState {
            queued,
            processing,
            oldest_queued_at: row.try_get("oldest_queued_at")?,
            webhooks: row.try_get("webhooks")?,
            mails: row.try_get("mails")?,
            sessions: sessions.iter().map(session).collect::<Result<_>>()?,
        })
    }
}
