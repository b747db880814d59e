//! Notifications between nodes on one PostgreSQL, by NOTIFY and LISTEN. Missed notifications are covered by polling.

use sqlx::postgres::PgListener;

use super::{Dialect, Result, Store, Tx};

/// The channel of all notifications.
const CHANNEL: &str = "auricle";

/// The work that a notification announces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Topic {
    /// A job is queued or may start.
    Jobs,
    /// A webhook is queued.
    Webhooks,
}

impl Topic {
    fn name(self) -> &'static str {
        match self {
            Self::Jobs => "jobs",
            Self::Webhooks => "webhooks",
        }
    }
}

/// Receives the notifications of other nodes.
pub struct NotifyListener(PgListener);

impl NotifyListener {
    /// The next notification. None after a reconnection, when notifications may have been missed.
    ///
    /// # Errors
    /// An error of the database.
    pub async fn next(&mut self) -> Result<Option<Topic>> {
        let Some(notification) = self.0.try_recv().await? else { return Ok(None) };
        Ok([Topic::Jobs, Topic::Webhooks].into_iter().find(|topic| topic.name() == notification.payload()))
    }
}

impl Store {
    /// Notifies all nodes when the transaction is committed.
    pub(super) async fn notify(&self, tx: &mut Tx, topic: Topic) -> Result<()> {
        if self.dialect == Dialect::Postgres {
            // The function returns void, which sqlx cannot decode.
            sqlx::query("SELECT 1 AS one FROM (SELECT pg_notify($1, $2)) AS sent")
                .bind(CHANNEL)
                .bind(topic.name())
                .execute(&mut **tx)
                .await?;
        }
        Ok(())
    }

    /// Listens to notifications of other nodes. None on SQLite, which has no other nodes.
    ///
    /// # Errors
    /// An error of the database.
    pub async fn notify_listener(&self) -> Result<Option<NotifyListener>> {
        if self.dialect == Dialect::Sqlite {
            return Ok(None);
        }
        let mut listener = PgListener::connect(&self.url).await?;
        listener.listen(CHANNEL).await?;
        Ok(Some(NotifyListener(listener)))
    }
}
