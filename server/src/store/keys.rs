//! API keys. The store keeps the hash of a secret alone.

use data_encoding::BASE32_NOPAD;
use sqlx::Row as _;

use super::accounts::account;
use super::{Account, Result, Store, key_cache, secret_hash};
use crate::clock;
use crate::ids::{AccountId, KeyId, random};

/// A new key with its secret.
pub struct Key {
    pub id: KeyId,
    /// `svc_` and 160 random bits.
    pub secret: String,
}

/// A key without its secret.
#[derive(Clone, Debug)]
pub struct KeyRow {
    pub id: KeyId,
    pub email: String,
    pub name: String,
    pub created_at: i64,
    pub revoked_at: Option<i64>,
}

impl Store {
    /// Creates a key. Its secret is not stored.
    pub async fn create_key(&self, account: &AccountId, name: &str) -> Result<Key> {
        let key =
            Key { id: KeyId::new(), secret: format!("svc_{}", BASE32_NOPAD.encode(&random::<20>()).to_lowercase()) };
        sqlx::query("INSERT INTO api_keys (id, account_id, name, secret_hash, created_at) VALUES ($1, $2, $3, $4, $5)")
            .bind(key.id.as_str())
            .bind(account.as_str())
            .bind(name)
            .bind(secret_hash(&key.secret))
            .bind(clock::now_ms())
            .execute(&self.write)
            .await?;
        Ok(key)
    }

    /// The account of the key with this hash. None if the key is unknown or revoked.
    pub(super) async fn account_by_hash(&self, hash: &str) -> Result<Option<Account>> {
        let row = sqlx::query(
            "SELECT k.id, k.account_id, a.email, a.subscribed, a.customer
             FROM api_keys k JOIN accounts a ON a.id = k.account_id
             WHERE k.secret_hash = $1 AND k.revoked_at IS NULL",
        )
        .bind(hash)
        .fetch_optional(&self.read)
        .await?;
        row.map(|row| Ok(Account { key: Some(row.try_get::<String, _>("id")?.into()), ..account(&row)? })).transpose()
    }

    /// All keys or those of one account, oldest first.
    pub async fn keys(&self, email: Option<&str>) -> Result<Vec<KeyRow>> {
        let rows = sqlx::query(
            "SELECT k.id, a.email, k.name, k.created_at, k.revoked_at FROM api_keys k JOIN accounts a ON a.id = k.account_id
             WHERE $1 = '' OR a.email = $1 ORDER BY k.created_at, k.id",
        )
        .bind(email.unwrap_or_default())
        .fetch_all(&self.read)
        .await?;
        rows.iter()
            .map(|row| {
                Ok(KeyRow {
                    id: row.try_get::<String, _>("id")?.into(),
                    email: row.try_get("email")?,
                    name: row.try_get("name")?,
                    created_at: row.try_get("created_at")?,
                    revoked_at: row.try_get("revoked_at")?,
                })
            })
            .collect()
    }

    /// Revokes a key by its secret or its id. False if the key is unknown or already revoked.
    pub async fn revoke_key(&self, secret_or_id: &str) -> Result<bool> {
        let mut tx = self.begin().await?;
        let done = sqlx::query(
            "UPDATE api_keys SET revoked_at = $1 WHERE (secret_hash = $2 OR id = $3) AND revoked_at IS NULL",
        )
        .bind(clock::now_ms())
        .bind(secret_hash(secret_or_id))
        .bind(secret_or_id)
        .execute(&mut *tx)
        .await?;
        key_cache::invalidate(&mut tx).await?;
        tx.commit().await?;
        Ok(done.rows_affected() > 0)
    }
}
