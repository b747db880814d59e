//! What others are to be told: webhooks of transcripts, and usage for the payment provider. Written with what they tell
//! of, sent at least once.

use sqlx::Row as _;

use super::{Result, Store};
use crate::clock;
use crate::ids::{DeliveryId, LeaseId, UsageId};

/// A webhook that is due.
#[derive(Clone, Debug)]
pub struct Delivery {
    pub id: DeliveryId,
    pub lease: LeaseId,
    pub transcript_id: String,
    pub event: String,
    pub url: String,
    /// This one counted: 1 the first time.
    pub attempt: i64,
}

/// Usage that the payment provider has not been told of.
#[derive(Clone, Debug)]
pub struct Usage {
    pub id: UsageId,
    pub customer: String,
    pub cents: i64,
    pub created_at: i64,
    /// How often the provider would not take it.
    pub refused: i64,
}

/// Nothing is put off for so long: what seems to be was put off before the clock was put back.
const FURTHEST_MS: i64 = 48 * 3_600_000;

/// Whether a webhook's time has come: `$now` is its place in the query, `$furthest` that of [`FURTHEST_MS`], for rows
/// whose wait was not written down. Nodes' clocks may differ by a minute.
macro_rules! is_due {
    ($now:literal, $furthest:literal) => {
        concat!(
            "state = 'pending' AND (due_at <= ",
            $now,
            " OR due_at > ",
            $now,
            " + 60000 + 2 * COALESCE(wait_ms, ",
            $furthest,
            "))"
        )
    };
}

impl Store {
    /// Whether a webhook is due: asked often, and cheap, because nothing is locked.
    pub async fn has_due_deliveries(&self) -> Result<bool> {
        let row = sqlx::query(concat!("SELECT 1 AS one FROM webhooks WHERE ", is_due!("$1", "$2"), " LIMIT 1"))
            .bind(clock::now_ms())
            .bind(FURTHEST_MS)
            .fetch_optional(&self.read)
            .await?;
        Ok(row.is_some())
    }

    /// Takes a webhook that is due; if nothing is heard of it, it is due again after `hold_ms`.
    pub async fn claim_delivery(&self, hold_ms: i64) -> Result<Option<Delivery>> {
        let now = clock::now_ms();
        let lease = LeaseId::new();
        let row = sqlx::query(concat!(
            "UPDATE webhooks SET lease = $1, due_at = $2 + $3, wait_ms = $3, attempts = attempts + 1
             WHERE id = (SELECT id FROM webhooks WHERE ",
            is_due!("$2", "$4"),
            " ORDER BY due_at LIMIT 1) AND ",
            is_due!("$2", "$4"),
            " RETURNING id, transcript_id, event, url, attempts",
        ))
        .bind(lease.as_str())
        .bind(now)
        .bind(hold_ms)
        .bind(FURTHEST_MS)
        .fetch_optional(&self.write)
        .await?;
        row.map(|row| {
            Ok(Delivery {
                id: row.try_get::<String, _>("id")?.into(),
                lease,
                transcript_id: row.try_get("transcript_id")?,
                event: row.try_get("event")?,
                url: row.try_get("url")?,
                attempt: row.try_get("attempts")?,
            })
        })
        .transpose()
    }

    /// A webhook was accepted, or nothing more is tried.
    pub async fn close_delivery(&self, delivery: &Delivery, error: Option<&str>) -> Result<()> {
        sqlx::query("UPDATE webhooks SET state = $1, last_error = $2, lease = NULL WHERE id = $3 AND lease = $4")
            .bind(if error.is_none() { "delivered" } else { "failed" })
            .bind(error)
            .bind(delivery.id.as_str())
            .bind(delivery.lease.as_str())
            .execute(&self.write)
            .await?;
        Ok(())
    }

    /// A webhook is to be tried again after `delay_ms`.
    pub async fn postpone_delivery(&self, delivery: &Delivery, delay_ms: i64, error: &str) -> Result<()> {
        sqlx::query(
            "UPDATE webhooks SET due_at = $1, wait_ms = $2, last_error = $3, lease = NULL WHERE id = $4 AND lease = $5",
        )
        .bind(clock::now_ms() + delay_ms)
        .bind(delay_ms)
        .bind(error)
        .bind(delivery.id.as_str())
        .bind(delivery.lease.as_str())
        .execute(&self.write)
        .await?;
        Ok(())
    }

    /// Billable usage of customers that the payment provider is to be told of now, oldest first. That of a subscription
    /// which has ended since is owed all the same.
    pub async fn unreported_usage(&self) -> Result<Vec<Usage>> {
        let rows = sqlx::query(
            "SELECT u.id, a.customer, u.billable_cents, u.created_at, u.report_attempts
             FROM usage_events u JOIN accounts a ON a.id = u.account_id
             WHERE u.reported_at IS NULL AND u.billable_cents > 0 AND a.customer IS NOT NULL
               AND (u.report_due <= $1 OR u.report_due > $1 + $2)
             ORDER BY u.report_due, u.created_at, u.id LIMIT 100",
        )
        .bind(clock::now_ms())
        .bind(FURTHEST_MS)
        .fetch_all(&self.read)
        .await?;
        rows.iter()
            .map(|row| {
                Ok(Usage {
                    id: row.try_get::<String, _>("id")?.into(),
                    customer: row.try_get("customer")?,
                    cents: row.try_get("billable_cents")?,
                    created_at: row.try_get("created_at")?,
                    refused: row.try_get("report_attempts")?,
                })
            })
            .collect()
    }

    /// The payment provider has been told.
    pub async fn usage_reported(&self, id: &UsageId) -> Result<()> {
        sqlx::query("UPDATE usage_events SET reported_at = $1 WHERE id = $2")
            .bind(clock::now_ms())
            .bind(id.as_str())
            .execute(&self.write)
            .await?;
        Ok(())
    }

    /// The payment provider would not take it; it is told again after `delay_ms`.
    pub async fn postpone_report(&self, id: &UsageId, delay_ms: i64) -> Result<()> {
        sqlx::query("UPDATE usage_events SET report_attempts = report_attempts + 1, report_due = $1 WHERE id = $2")
            .bind(clock::now_ms() + delay_ms)
            .bind(id.as_str())
            .execute(&self.write)
            .await?;
        Ok(())
    }
}
