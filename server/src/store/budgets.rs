//! Budget alarms: the owner gets a letter when the cost of a calendar month has reached a limit, once a month.

use sqlx::Row as _;

use super::{Letter, Result, Store, Tx, mail_outbox, usage_days};
use crate::clock;
use crate::ids::AccountId;

/// A letter that has not been sent by then tells nothing new.
const ALARM_MS: i64 = 3 * 24 * 3_600_000;

/// The alarm of an account.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Budget {
    /// The limit; none without an alarm.
    pub cents: Option<i64>,
    /// The letter of this month was written.
    pub is_reached: bool,
}

impl Store {
    /// The alarm of an account.
    pub async fn budget(&self, account: &AccountId) -> Result<Budget> {
        let row = sqlx::query("SELECT budget_cents, budget_month FROM accounts WHERE id = $1")
            .bind(account.as_str())
            .fetch_one(&self.read)
            .await?;
        let month: Option<String> = row.try_get("budget_month")?;
        let is_reached = month.is_some_and(|month| month == clock::period(clock::now_ms()).name);
        Ok(Budget { cents: row.try_get("budget_cents")?, is_reached })
    }

    /// Sets the limit of an account; none switches the alarm off. Another limit has a letter of its own.
    pub async fn set_budget(&self, account: &AccountId, cents: Option<i64>) -> Result<()> {
        sqlx::query("UPDATE accounts SET budget_cents = $1, budget_month = NULL WHERE id = $2")
            .bind(cents)
            .bind(account.as_str())
            .execute(&self.write)
            .await?;
        Ok(())
    }
}

/// Writes the letter of an account whose cost has reached its limit, with the transaction that records usage and so holds the
/// account's row.
pub(super) async fn warn(tx: &mut Tx, account: &AccountId, now: i64) -> Result<()> {
    let month = clock::period(now);
    let row = sqlx::query(
        "SELECT email, budget_cents FROM accounts
         WHERE id = $1 AND budget_cents IS NOT NULL AND COALESCE(budget_month, '') <> $2",
    )
    .bind(account.as_str())
    .bind(&month.name)
    .fetch_optional(&mut **tx)
    .await?;
    let Some(row) = row else { return Ok(()) };
    let (email, limit_cents): (String, i64) = (row.try_get("email")?, row.try_get("budget_cents")?);
    let spent_cents = usage_days::cost_since(tx, account, month.start_ms).await?;
    if spent_cents < limit_cents {
        return Ok(());
    }
    sqlx::query("UPDATE accounts SET budget_month = $1 WHERE id = $2")
        .bind(&month.name)
        .bind(account.as_str())
        .execute(&mut **tx)
        .await?;
    let letter = Letter::Budget { month: month.name, limit_cents, spent_cents };
    mail_outbox::enqueue(tx, Some(account), &email, &letter, now + ALARM_MS).await
}
