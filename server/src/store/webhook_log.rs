//! What became of webhooks: the dashboard's list, the attempts, and sending one again.

use sqlx::Row as _;
use sqlx::any::AnyRow;

use super::{Result, Store, Topic, Tx};
use crate::clock;
use crate::ids::{AccountId, DeliveryId};

/// The state of a webhook.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WebhookState {
    /// It is sent, now or later.
    Pending,
    Delivered,
    /// It is not sent any more.
    Failed,
}

/// A webhook as the dashboard shows it.
#[derive(Clone, Debug)]
pub struct ListedWebhook {
    pub id: DeliveryId,
    pub transcript_id: String,
    pub event: String,
    pub url: String,
    pub state: WebhookState,
    pub attempts: i64,
    pub created_at: i64,
    /// The time of the next attempt, of a pending one.
    pub due_at: i64,
    /// It is being sent.
    pub is_running: bool,
}

/// One attempt to deliver a webhook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebhookAttempt {
    /// From 1.
    pub number: i64,
    pub began_at: i64,
    pub took_ms: i64,
    /// The status of the receiver's answer, if there was one.
    pub status: Option<u16>,
    /// The beginning of its body.
    pub answer: String,
    /// The reason why none came.
    pub error: Option<String>,
}

/// Attempts that are kept of a webhook, which people may send again and again.
const KEPT_ATTEMPTS: i64 = 100;

const COLUMNS: &str = "id, transcript_id, event, url, state, attempts, created_at, due_at, lease";

fn listed(row: &AnyRow) -> Result<ListedWebhook> {
    let state = match row.try_get::<String, _>("state")?.as_str() {
        "delivered" => WebhookState::Delivered,
        "failed" => WebhookState::Failed,
        _ => WebhookState::Pending,
    };
    Ok(ListedWebhook {
        id: row.try_get::<String, _>("id")?.into(),
        transcript_id: row.try_get("transcript_id")?,
        event: row.try_get("event")?,
        url: row.try_get("url")?,
        state,
        attempts: row.try_get("attempts")?,
        created_at: row.try_get("created_at")?,
        due_at: row.try_get("due_at")?,
        is_running: row.try_get::<Option<String>, _>("lease")?.is_some(),
    })
}

impl Store {
    /// A page of an account's webhooks, newest first, behind the one with the id `after`, if that is not empty.
    pub async fn list_webhooks(&self, account: &AccountId, after: &str, limit: i64) -> Result<Vec<ListedWebhook>> {
        let rows = sqlx::query(sqlx::AssertSqlSafe(format!(
            "SELECT {COLUMNS} FROM webhooks WHERE account_id = $1 AND id < $2 ORDER BY id DESC LIMIT $3"
        )))
        .bind(account.as_str())
        // Every id begins with `wh_`. One comparison, so that the index leads to the page.
        .bind(if after.is_empty() { "x" } else { after })
        .bind(limit)
        .fetch_all(&self.read)
        .await?;
        rows.iter().map(listed).collect()
    }

    /// A webhook of an account.
    pub async fn webhook(&self, account: &AccountId, id: &DeliveryId) -> Result<Option<ListedWebhook>> {
        let query = format!("SELECT {COLUMNS} FROM webhooks WHERE id = $1 AND account_id = $2");
        let row = sqlx::query(sqlx::AssertSqlSafe(query))
            .bind(id.as_str())
            .bind(account.as_str())
            .fetch_optional(&self.read)
            .await?;
        row.as_ref().map(listed).transpose()
    }

    /// The attempts of a webhook, newest first.
    pub async fn webhook_attempts(&self, id: &DeliveryId) -> Result<Vec<WebhookAttempt>> {
        let rows = sqlx::query(
            "SELECT attempt, began_at, took_ms, status, answer, error FROM webhook_attempts WHERE webhook_id = $1
             ORDER BY attempt DESC",
        )
        .bind(id.as_str())
        .fetch_all(&self.read)
        .await?;
        rows.iter()
            .map(|row| {
                Ok(WebhookAttempt {
                    number: row.try_get("attempt")?,
                    began_at: row.try_get("began_at")?,
                    took_ms: row.try_get("took_ms")?,
                    status: row.try_get::<Option<i64>, _>("status")?.and_then(|status| u16::try_from(status).ok()),
                    answer: row.try_get("answer")?,
                    error: row.try_get("error")?,
                })
            })
            .collect()
    }

    /// Has a webhook sent again at once, with all its attempts. False if it is being sent, or the account has none with this id.
    pub async fn send_webhook_again(&self, account: &AccountId, id: &DeliveryId) -> Result<bool> {
        let mut tx = self.begin().await?;
        let done = sqlx::query(
            "UPDATE webhooks SET state = 'pending', due_at = $1, wait_ms = 0, attempts_before = attempts
             WHERE id = $2 AND account_id = $3 AND lease IS NULL",
        )
        .bind(clock::now_ms())
        .bind(id.as_str())
        .bind(account.as_str())
        .execute(&mut *tx)
        .await?;
        self.notify(&mut tx, Topic::Webhooks).await?;
        tx.commit().await?;
        Ok(done.rows_affected() > 0)
    }
}

/// Writes an attempt, and forgets those long before it.
pub(super) async fn record(tx: &mut Tx, id: &DeliveryId, attempt: &WebhookAttempt) -> Result<()> {
    sqlx::query(
        "INSERT INTO webhook_attempts (webhook_id, attempt, began_at, took_ms, status, answer, error)
         VALUES ($1, $2, $3, $4, $5, $6, $7)",
    )
    .bind(id.as_str())
    .bind(attempt.number)
    .bind(attempt.began_at)
    .bind(attempt.took_ms)
    .bind(attempt.status.map(i64::from))
    .bind(&attempt.answer)
    .bind(attempt.error.as_deref())
    .execute(&mut **tx)
    .await?;
    sqlx::query("DELETE FROM webhook_attempts WHERE webhook_id = $1 AND attempt <= $2")
        .bind(id.as_str())
        .bind(attempt.number - KEPT_ATTEMPTS)
        .execute(&mut **tx)
        .await?;
    Ok(())
}
