//! The outbox of webhooks. A webhook is written in the transaction that ends its transcript, and is sent at least once.

use std::collections::HashSet;

use sqlx::Row as _;

use super::webhook_log::{self, WebhookAttempt};
use super::{MAX_DELAY_MS, Result, Store, Tx, account_list, not_listed};
use crate::clock;
use crate::ids::{AccountId, DeliveryId, LeaseId, TranscriptId};

/// A claimed webhook.
#[derive(Clone, Debug)]
pub struct WebhookDelivery {
    pub id: DeliveryId,
    pub lease: LeaseId,
    pub account: AccountId,
    pub transcript_id: String,
    pub event: String,
    pub url: String,
    /// Number of this attempt, from 1.
    pub attempt: i64,
    /// Attempts before somebody had it sent again.
    pub attempts_before: i64,
}

/// The SQL condition of a due webhook or mail. `$now` is the parameter of the current time, `$max_delay` that of [`MAX_DELAY_MS`],
/// which holds for rows without a recorded delay. A due time too far ahead was set before the clock was set back. Nodes'
/// clocks may differ by a minute.
macro_rules! is_due {
    ($now:literal, $max_delay:literal) => {
        concat!(
            "state = 'pending' AND (due_at <= ",
            $now,
            " OR due_at > ",
            $now,
            " + 60000 + 2 * COALESCE(wait_ms, ",
            $max_delay,
            "))"
        )
    };
}

pub(super) use is_due;

impl Store {
    /// Tells if a webhook is due. This frequent query takes no lock.
    pub async fn has_due_webhooks(&self) -> Result<bool> {
        let row = sqlx::query(concat!("SELECT 1 AS one FROM webhooks WHERE ", is_due!("$1", "$2"), " LIMIT 1"))
            .bind(clock::now_ms())
            .bind(MAX_DELAY_MS)
            .fetch_optional(&self.read)
            .await?;
        Ok(row.is_some())
    }

    /// Claims a due webhook of an account that is not in `skip`. Without a recorded outcome it is due again after `hold_ms`.
    pub async fn claim_webhook(&self, hold_ms: i64, skip: &HashSet<AccountId>) -> Result<Option<WebhookDelivery>> {
        let now = clock::now_ms();
        let lease = LeaseId::new();
        let row = sqlx::query(concat!(
            "UPDATE webhooks SET lease = $1, due_at = $2 + $3, wait_ms = $3, attempts = attempts + 1
             WHERE id = (SELECT id FROM webhooks WHERE ",
            is_due!("$2", "$4"),
            " AND ",
            not_listed!("$5", "account_id"),
            " ORDER BY due_at LIMIT 1) AND ",
            is_due!("$2", "$4"),
            " RETURNING id, account_id, transcript_id, event, url, attempts, attempts_before",
        ))
        .bind(lease.as_str())
        .bind(now)
        .bind(hold_ms)
        .bind(MAX_DELAY_MS)
        .bind(account_list(skip))
        .fetch_optional(&self.write)
        .await?;
        row.map(|row| {
            Ok(WebhookDelivery {
                id: row.try_get::<String, _>("id")?.into(),
                lease,
                account: row.try_get::<String, _>("account_id")?.into(),
                transcript_id: row.try_get("transcript_id")?,
                event: row.try_get("event")?,
                url: row.try_get("url")?,
                attempt: row.try_get("attempts")?,
                attempts_before: row.try_get("attempts_before")?,
            })
        })
        .transpose()
    }

    /// Records an attempt and closes the webhook: delivered, or failed for good with an error.
    pub async fn close_webhook(
        &self,
        delivery: &WebhookDelivery,
        attempt: &WebhookAttempt,
        error: Option<&str>,
    ) -> Result<()> {
        let mut tx = self.begin().await?;
        let closed =
            sqlx::query("UPDATE webhooks SET state = $1, last_error = $2, lease = NULL WHERE id = $3 AND lease = $4")
                .bind(if error.is_none() { "delivered" } else { "failed" })
                .bind(error)
                .bind(delivery.id.as_str())
                .bind(delivery.lease.as_str())
                .execute(&mut *tx)
                .await?;
        if closed.rows_affected() > 0 {
            webhook_log::record(&mut tx, &delivery.id, attempt).await?;
        }
        tx.commit().await
    }

    /// Records a failed attempt. The webhook is due again after `delay_ms`.
    pub async fn postpone_webhook(
        &self,
        delivery: &WebhookDelivery,
        attempt: &WebhookAttempt,
        delay_ms: i64,
        error: &str,
    ) -> Result<()> {
        let mut tx = self.begin().await?;
        let postponed = sqlx::query(
            "UPDATE webhooks SET due_at = $1, wait_ms = $2, last_error = $3, lease = NULL WHERE id = $4 AND lease = $5",
        )
        .bind(clock::now_ms() + delay_ms)
        .bind(delay_ms)
        .bind(error)
        .bind(delivery.id.as_str())
        .bind(delivery.lease.as_str())
        .execute(&mut *tx)
        .await?;
        if postponed.rows_affected() > 0 {
            webhook_log::record(&mut tx, &delivery.id, attempt).await?;
        }
        tx.commit().await
    }
}

/// Queues the webhook of a transcript that has ended, if it has a webhook URL.
pub(super) async fn enqueue(tx: &mut Tx, id: &TranscriptId, now: i64) -> Result<()> {
    sqlx::query(
        "INSERT INTO webhooks (id, account_id, transcript_id, event, url, state, due_at, wait_ms, created_at)
         SELECT $1, account_id, id, CASE WHEN status = 'completed' THEN 'transcript.completed' ELSE 'transcript.error' END,
                webhook_url, 'pending', $2, 0, $2
         FROM transcripts WHERE id = $3 AND webhook_url IS NOT NULL",
    )
    .bind(DeliveryId::new().as_str())
    .bind(now)
    .bind(id.as_str())
    .execute(&mut **tx)
    .await?;
    Ok(())
}
