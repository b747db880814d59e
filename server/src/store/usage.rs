//! Usage events. One is written per job or session, in the transaction that ends it. Free credit is spent first.

use sqlx::Row as _;

use super::{Dialect, Result, Store, Tx, budgets};
use crate::ids::{AccountId, TranscriptId, UsageId};

/// Usage that is billed.
pub struct NewUsage<'a> {
    pub account: &'a AccountId,
    pub sku: &'a str,
    pub unit_type: &'a str,
    pub quantity_ms: i64,
    pub cents: i64,
    pub transcript: Option<&'a TranscriptId>,
    pub session: Option<&'a str>,
}

/// A usage event of an account.
#[derive(Clone, Debug)]
pub struct UsageEvent {
    pub id: UsageId,
    pub sku: String,
    pub unit_type: String,
    pub quantity_ms: i64,
    pub retail_cost_cents: i64,
    pub credit_applied_cents: i64,
    pub billable_cents: i64,
    pub transcript_id: Option<String>,
    pub session_id: Option<String>,
    pub created_at: i64,
}

/// Records an event and deducts it from the free credit as far as that lasts. A second event of the same transcript or session
/// changes nothing.
pub(super) async fn record(tx: &mut Tx, dialect: Dialect, event: &NewUsage<'_>, now: i64) -> Result<()> {
    // Jobs of an account may end at the same time. The row lock orders their deductions.
    let balance_sql = match dialect {
        Dialect::Sqlite => "SELECT credit_balance_cents FROM accounts WHERE id = $1",
        Dialect::Postgres => "SELECT credit_balance_cents FROM accounts WHERE id = $1 FOR UPDATE",
    };
    let balance: i64 = sqlx::query_scalar(balance_sql).bind(event.account.as_str()).fetch_one(&mut **tx).await?;
    let credit = balance.min(event.cents);
    let written = sqlx::query(
        "INSERT INTO usage_events (id, account_id, sku, unit_type, quantity_ms, retail_cost_cents, credit_applied_cents,
                                   billable_cents, transcript_id, session_id, created_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11) ON CONFLICT DO NOTHING",
    )
    .bind(UsageId::of(event.transcript.map_or(event.session, |id| Some(id.as_str())).unwrap_or_default()).as_str())
    .bind(event.account.as_str())
    .bind(event.sku)
    .bind(event.unit_type)
    .bind(event.quantity_ms)
    .bind(event.cents)
    .bind(credit)
    .bind(event.cents - credit)
    .bind(event.transcript.map(TranscriptId::as_str))
    .bind(event.session)
    .bind(now)
    .execute(&mut **tx)
    .await?;
    if written.rows_affected() > 0 && credit > 0 {
        sqlx::query("UPDATE accounts SET credit_balance_cents = credit_balance_cents - $1 WHERE id = $2")
            .bind(credit)
            .bind(event.account.as_str())
            .execute(&mut **tx)
            .await?;
    }
    if written.rows_affected() > 0 {
        budgets::warn(tx, event.account, now).await?;
    }
    Ok(())
}

impl Store {
    /// A page of an account's usage events, newest first, and their total number.
    pub async fn usage(&self, account: &AccountId, limit: i64, offset: i64) -> Result<(Vec<UsageEvent>, i64)> {
        let events = self.usage_until(account, i64::MAX, limit, offset).await?;
        Ok((events, self.count_usage(account).await?))
    }

    /// A part of an account's usage events up to a time, newest first.
    pub async fn usage_until(
        &self,
        account: &AccountId,
        until: i64,
        limit: i64,
        offset: i64,
    ) -> Result<Vec<UsageEvent>> {
        let rows = sqlx::query(
            "SELECT id, sku, unit_type, quantity_ms, retail_cost_cents, credit_applied_cents, billable_cents, transcript_id,
                    session_id, created_at
             FROM usage_events WHERE account_id = $1 AND created_at <= $4 ORDER BY created_at DESC, id DESC
             LIMIT $2 OFFSET $3",
        )
        .bind(account.as_str())
        .bind(limit)
        .bind(offset)
        .bind(until)
        .fetch_all(&self.read)
        .await?;
        rows.iter()
            .map(|row| {
                Ok(UsageEvent {
                    id: row.try_get::<String, _>("id")?.into(),
                    sku: row.try_get("sku")?,
                    unit_type: row.try_get("unit_type")?,
                    quantity_ms: row.try_get("quantity_ms")?,
                    retail_cost_cents: row.try_get("retail_cost_cents")?,
                    credit_applied_cents: row.try_get("credit_applied_cents")?,
                    billable_cents: row.try_get("billable_cents")?,
                    transcript_id: row.try_get("transcript_id")?,
                    session_id: row.try_get("session_id")?,
                    created_at: row.try_get("created_at")?,
                })
            })
            .collect()
    }
}
