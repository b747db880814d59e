//! Nodes on one PostgreSQL tell each other at once that there is something to do; what is missed is found by looking.

use sqlx::postgres::PgListener;

use super::{Dialect, Result, Store, Tx};

/// Where they are heard.
const CHANNEL: &str = "auricle";

/// What there is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Topic {
    /// A job waits, or may now begin.
    Jobs,
    /// A webhook waits.
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

/// What other nodes ring.
pub struct NotifyListener(PgListener);

impl NotifyListener {
    /// The next one; none if the connection was lost and is there again, and any may have been missed.
    ///
    /// # Errors
    /// What the database says.
    pub async fn next(&mut self) -> Result<Option<Topic>> {
        let Some(notification) = self.0.try_recv().await? else { return Ok(None) };
        Ok([Topic::Jobs, Topic::Webhooks].into_iter().find(|topic| topic.name() == notification.payload()))
    }
}

impl Store {
    /// Rings for all nodes once the transaction is committed.
    pub(super) async fn notify(&self, tx: &mut Tx, topic: Topic) -> Result<()> {
        if self.dialect == Dialect::Postgres {
            // Its result is void, which no value type stands for.
            sqlx::query("SELECT 1 AS one FROM (SELECT pg_notify($1, $2)) AS sent")
                .bind(CHANNEL)
                .bind(topic.name())
                .execute(&mut **tx)
                .await?;
        }
        Ok(())
    }

    /// Listens to what other nodes ring; none where there are no others.
    ///
    /// # Errors
    /// What the database says.
    pub async fn notify_listener(&self) -> Result<Option<NotifyListener>> {
        if self.dialect == Dialect::Sqlite {
            return Ok(None);
        }
        let mut listener = PgListener::connect(&self.url).await?;
        listener.listen(CHANNEL).await?;
        Ok(Some(NotifyListener(listener)))
    }
}
