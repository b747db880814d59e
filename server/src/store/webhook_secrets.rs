//! The encrypted secrets that sign an account's webhooks.

use sqlx::Row as _;
use sqlx::any::AnyRow;

use super::{Result, Store};
use crate::ids::AccountId;

/// The encrypted secret of an account.
pub struct WebhookSecret {
    pub sealed: String,
    /// The end of the secret.
    pub ending: String,
    pub created_at: i64,
    /// The encrypted secret before it, and the time until which it signs, too.
    pub previous: Option<(String, i64)>,
}

fn secret(row: &AnyRow) -> Result<WebhookSecret> {
    let previous: Option<String> = row.try_get("previous_sealed")?;
    Ok(WebhookSecret {
        sealed: row.try_get("sealed")?,
        ending: row.try_get("ending")?,
        created_at: row.try_get("created_at")?,
        previous: previous.zip(row.try_get("previous_until")?),
    })
}

impl Store {
    /// The secret of an account, if it has one.
    pub async fn webhook_secret(&self, account: &AccountId) -> Result<Option<WebhookSecret>> {
        let row = sqlx::query(
            "SELECT sealed, ending, created_at, previous_sealed, previous_until FROM webhook_secrets WHERE account_id = $1",
        )
        .bind(account.as_str())
        .fetch_optional(&self.read)
        .await?;
        row.as_ref().map(secret).transpose()
    }

    /// Gives an account a secret. The one that it had signs, too, until `previous_until`; the one before that no more.
    pub async fn rotate_webhook_secret(
        &self,
        account: &AccountId,
        sealed: &str,
        ending: &str,
        created_at: i64,
        previous_until: i64,
    ) -> Result<WebhookSecret> {
        let row = sqlx::query(
            "INSERT INTO webhook_secrets (account_id, sealed, ending, created_at) VALUES ($1, $2, $3, $4)
             ON CONFLICT (account_id) DO UPDATE SET
                 previous_sealed = webhook_secrets.sealed, previous_until = $5,
                 sealed = excluded.sealed, ending = excluded.ending, created_at = excluded.created_at
             RETURNING sealed, ending, created_at, previous_sealed, previous_until",
        )
        .bind(account.as_str())
        .bind(sealed)
        .bind(ending)
        .bind(created_at)
        .bind(previous_until)
        .fetch_one(&self.write)
        .await?;
        secret(&row)
    }

    /// Deletes the secret of an account, with the one before it. False if it has none.
    pub async fn delete_webhook_secret(&self, account: &AccountId) -> Result<bool> {
        let done = sqlx::query("DELETE FROM webhook_secrets WHERE account_id = $1")
            .bind(account.as_str())
            .execute(&self.write)
            .await?;
        Ok(done.rows_affected() > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;
    use crate::store::Durability;

    #[tokio::test]
    async fn a_rotated_secret_stays_until_its_time_has_passed() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&Store::url_in(folder.path()), Durability::Crash).await.unwrap();
        let account = store.account_of("a@example.com", 100).await.unwrap().id;
        let other = store.account_of("b@example.com", 100).await.unwrap().id;
        let now = clock::now_ms();
        let rotate = async |sealed, until| {
            store.rotate_webhook_secret(&account, sealed, "wxyz", now, until).await.unwrap().previous
        };
        assert!(store.webhook_secret(&account).await.unwrap().is_none());
        assert_eq!(rotate("one", now + 60_000).await, None);
        assert_eq!(rotate("two", now + 60_000).await, Some(("one".into(), now + 60_000)));
        let previous = async || store.webhook_secret(&account).await.unwrap().unwrap().previous;
        store.delete_expired_records().await.unwrap();
        assert_eq!(previous().await, Some(("one".into(), now + 60_000)));
        assert_eq!(rotate("three", now - 1).await, Some(("two".into(), now - 1)));
        store.delete_expired_records().await.unwrap();
        assert_eq!(previous().await, None);
        let found = store.webhook_secret(&account).await.unwrap().unwrap();
        assert_eq!((found.sealed.as_str(), found.ending.as_str(), found.created_at), ("three", "wxyz", now));
        assert!(store.webhook_secret(&other).await.unwrap().is_none());
        assert!(!store.delete_webhook_secret(&other).await.unwrap());
        assert!(store.delete_webhook_secret(&account).await.unwrap());
        assert!(store.webhook_secret(&account).await.unwrap().is_none());
    }
}
