//! Usage that must be reported to the payment provider. Each event is reported at least once.

use sqlx::Row as _;

use super::{MAX_DELAY_MS, Result, Store};
use crate::clock;
use crate::ids::UsageId;

/// Usage that is not reported yet.
#[derive(Clone, Debug)]
pub struct UnreportedUsage {
    pub id: UsageId,
    pub customer: String,
    pub cents: i64,
    pub created_at: i64,
    /// Number of refusals by the provider.
    pub refusals: i64,
}

impl Store {
    /// Billable usage of customers whose report is due, oldest first. It includes usage of subscriptions that have ended.
    pub async fn unreported_usage(&self) -> Result<Vec<UnreportedUsage>> {
        let rows = sqlx::query(
            "SELECT u.id, a.customer, u.billable_cents, u.created_at, u.report_attempts
             FROM usage_events u JOIN accounts a ON a.id = u.account_id
             WHERE u.reported_at IS NULL AND u.billable_cents > 0 AND a.customer IS NOT NULL
               AND (u.report_due <= $1 OR u.report_due > $1 + $2)
             ORDER BY u.report_due, u.created_at, u.id LIMIT 100",
        )
        .bind(clock::now_ms())
        .bind(MAX_DELAY_MS)
        .fetch_all(&self.read)
        .await?;
        rows.iter()
            .map(|row| {
                Ok(UnreportedUsage {
                    id: row.try_get::<String, _>("id")?.into(),
                    customer: row.try_get("customer")?,
                    cents: row.try_get("billable_cents")?,
                    created_at: row.try_get("created_at")?,
                    refusals: row.try_get("report_attempts")?,
                })
            })
            .collect()
    }

    /// Records that usage was reported.
    pub async fn mark_usage_reported(&self, id: &UsageId) -> Result<()> {
        sqlx::query("UPDATE usage_events SET reported_at = $1 WHERE id = $2")
            .bind(clock::now_ms())
            .bind(id.as_str())
            .execute(&self.write)
            .await?;
        Ok(())
    }

    /// Records that a report was refused. It is due again after `delay_ms`.
    pub async fn postpone_usage_report(&self, id: &UsageId, delay_ms: i64) -> Result<()> {
        sqlx::query("UPDATE usage_events SET report_attempts = report_attempts + 1, report_due = $1 WHERE id = $2")
            .bind(clock::now_ms() + delay_ms)
            .bind(id.as_str())
            .execute(&self.write)
            .await?;
        Ok(())
    }
}
