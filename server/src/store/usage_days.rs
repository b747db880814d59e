//! Sums of usage by day and model, which the database keeps with each event that is written.

use sqlx::Row as _;

use super::{Result, Store, Tx};
use crate::ids::AccountId;

pub(super) const DAY_MS: i64 = 24 * 3_600_000;

/// The summed usage of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rollup {
    pub sku: String,
    pub unit_type: String,
    pub quantity_ms: i64,
    pub events: i64,
    pub retail_cost_cents: i64,
    pub credit_applied_cents: i64,
    pub billable_cents: i64,
}

/// The cost of a model on one day.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DailyCost {
    /// Days since 1970, UTC.
    pub day: i64,
    pub sku: String,
    pub retail_cost_cents: i64,
}

impl Store {
    /// Costs of an account's usage since the day of a time, by day and model, oldest first.
    pub async fn daily_costs(&self, account: &AccountId, since: i64) -> Result<Vec<DailyCost>> {
        let rows = sqlx::query(
            "SELECT day, sku, CAST(SUM(retail_cost_cents) AS BIGINT) AS retail
             FROM usage_days WHERE account_id = $1 AND day >= $2 GROUP BY day, sku ORDER BY day, sku",
        )
        .bind(account.as_str())
        .bind(since / DAY_MS)
        .fetch_all(&self.read)
        .await?;
        rows.iter()
            .map(|row| {
                Ok(DailyCost {
                    day: row.try_get("day")?,
                    sku: row.try_get("sku")?,
                    retail_cost_cents: row.try_get("retail")?,
                })
            })
            .collect()
    }

    /// The usage of an account by model.
    pub async fn usage_by_model(&self, account: &AccountId) -> Result<Vec<Rollup>> {
        let rows = sqlx::query(
            "SELECT sku, unit_type, CAST(SUM(events) AS BIGINT) AS events, CAST(SUM(quantity_ms) AS BIGINT) AS quantity_ms,
                    CAST(SUM(retail_cost_cents) AS BIGINT) AS retail, CAST(SUM(credit_applied_cents) AS BIGINT) AS credit,
                    CAST(SUM(billable_cents) AS BIGINT) AS billable
             FROM usage_days WHERE account_id = $1 GROUP BY sku, unit_type ORDER BY sku, unit_type",
        )
        .bind(account.as_str())
        .fetch_all(&self.read)
        .await?;
        rows.iter()
            .map(|row| {
                Ok(Rollup {
                    sku: row.try_get("sku")?,
                    unit_type: row.try_get("unit_type")?,
                    quantity_ms: row.try_get("quantity_ms")?,
                    events: row.try_get("events")?,
                    retail_cost_cents: row.try_get("retail")?,
                    credit_applied_cents: row.try_get("credit")?,
                    billable_cents: row.try_get("billable")?,
                })
            })
            .collect()
    }

    /// The number of an account's usage events.
    pub(super) async fn count_usage(&self, account: &AccountId) -> Result<i64> {
        sqlx::query_scalar(
            "SELECT CAST(COALESCE(SUM(events), 0) AS BIGINT) AS total FROM usage_days WHERE account_id = $1",
        )
        .bind(account.as_str())
        .fetch_one(&self.read)
        .await
    }
}

/// The cost of an account's usage since the day of a time.
pub(super) async fn cost_since(tx: &mut Tx, account: &AccountId, since: i64) -> Result<i64> {
    sqlx::query_scalar(
        "SELECT CAST(COALESCE(SUM(retail_cost_cents), 0) AS BIGINT) AS spent FROM usage_days
         WHERE account_id = $1 AND day >= $2",
    )
    .bind(account.as_str())
    .bind(since / DAY_MS)
    .fetch_one(&mut **tx)
    .await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;
    use crate::store::Durability;

    /// Sums of an account's events, as they stand in `usage_days`.
    const SUMS: &str =
        "SELECT account_id || ' ' || day || ' ' || sku || ' ' || unit_type || ' ' || events || ' ' || quantity_ms
        || ' ' || retail_cost_cents || ' ' || credit_applied_cents || ' ' || billable_cents FROM";

    async fn lines(store: &Store, from: &str) -> Vec<String> {
        let sql = format!("{SUMS} {from} ORDER BY 1");
        sqlx::query_scalar(sqlx::AssertSqlSafe(sql)).fetch_all(&store.read).await.unwrap()
    }

    /// The sums that are kept, which must be those of the events.
    pub(in crate::store) async fn check(store: &Store) -> Vec<String> {
        let kept = lines(store, "usage_days").await;
        let events = "(SELECT account_id, created_at / 86400000 AS day, sku, unit_type, COUNT(*) AS events,
            SUM(quantity_ms) AS quantity_ms, SUM(retail_cost_cents) AS retail_cost_cents,
            SUM(credit_applied_cents) AS credit_applied_cents, SUM(billable_cents) AS billable_cents
            FROM usage_events GROUP BY account_id, created_at / 86400000, sku, unit_type)";
        assert_eq!(kept, lines(store, events).await);
        kept
    }

    async fn write(store: &Store, account: &AccountId, id: &str, sku: &str, created_at: i64) {
        sqlx::query(
            "INSERT INTO usage_events (id, account_id, sku, unit_type, quantity_ms, retail_cost_cents, credit_applied_cents,
                                       billable_cents, created_at)
             VALUES ($1, $2, $3, 'audio_hour', 1500, 7, 3, 4, $4) ON CONFLICT DO NOTHING",
        )
        .bind(id)
        .bind(account.as_str())
        .bind(sku)
        .bind(created_at)
        .execute(&store.write)
        .await
        .unwrap();
    }

    #[tokio::test]
    async fn events_of_an_older_version_are_summed() {
        let folder = tempfile::tempdir().unwrap();
        let open = || async { Store::open(&Store::url_in(folder.path()), Durability::Crash).await.unwrap() };
        let store = open().await;
        let mut accounts = Vec::new();
        for email in ["a@example.com", "b@example.com"] {
            accounts.push(store.account_of(email, 100).await.unwrap().id);
        }
        // The schema of the version before.
        for sql in [
            "DROP TRIGGER usage_days_sum",
            "DROP TABLE usage_days",
            "CREATE INDEX usage_sums ON usage_events (account_id, created_at, sku, retail_cost_cents, billable_cents)",
            "DELETE FROM _sqlx_migrations WHERE version = 14",
        ] {
            sqlx::query(sql).execute(&store.write).await.unwrap();
        }
        let now = clock::now_ms();
        for n in 0..200 {
            let sku = ["svc-best", "svc-fast"][n % 2];
            write(&store, &accounts[n % 3 / 2], &format!("use_{n}"), sku, now - n as i64 * DAY_MS / 5).await;
        }
        store.close().await;
        let store = open().await;
        let sums = check(&store).await;
        assert!(sums.len() > 80, "{}", sums.len());
        // An event that comes twice counts once.
        for _ in 0..2 {
            write(&store, &accounts[0], "use_0", "svc-best", now).await;
            assert_eq!(check(&store).await, sums);
        }
        write(&store, &accounts[0], "use_more", "svc-best", now).await;
        assert_ne!(check(&store).await, sums);
        let (models, total) =
            (store.usage_by_model(&accounts[0]).await.unwrap(), store.count_usage(&accounts[0]).await.unwrap());
        assert_eq!(models.iter().map(|model| model.events).sum::<i64>(), total);
        assert!(
            models
                .iter()
                .all(|model| model.retail_cost_cents == 7 * model.events && model.quantity_ms == 1500 * model.events)
        );
        let days = store.daily_costs(&accounts[1], now - 2 * DAY_MS).await.unwrap();
        let expected = days.iter().map(|cost| cost.retail_cost_cents).sum::<i64>();
        let mut tx = store.begin().await.unwrap();
        assert_eq!(cost_since(&mut tx, &accounts[1], now - 2 * DAY_MS).await.unwrap(), expected);
        assert!(expected > 0 && expected % 7 == 0);
    }
}
