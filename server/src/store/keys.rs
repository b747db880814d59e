//! API keys. The store keeps the hash of a secret alone.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use data_encoding::BASE32_NOPAD;
use sqlx::Row as _;

use super::accounts::account;
use super::{Account, Result, Role, Store, key_cache, secret_hash};
use crate::clock;
use crate::ids::{AccountId, KeyId, UserId, random};

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
    /// The person who made it on the dashboard, with the address.
    pub maker: Option<(UserId, String)>,
    pub created_at: i64,
    /// The last use, to about a minute.
    pub last_used_at: Option<i64>,
    pub revoked_at: Option<i64>,
}

/// A use of a key is written down again after this time.
const USE_MS: i64 = 60_000;

/// With this number of keys, the times are forgotten and written anew.
const MAX_USED_KEYS: usize = 10_000;

/// When this process last wrote down the use of each key.
#[derive(Clone, Default)]
pub(super) struct KeyUses(Arc<Mutex<HashMap<KeyId, i64>>>);

impl KeyUses {
    /// True if a use at this time is to be written down.
    fn is_due(&self, key: &KeyId, now: i64) -> bool {
        let mut uses = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if uses.get(key).is_some_and(|at| (now - at).abs() < USE_MS) {
            return false;
        }
        if uses.len() >= MAX_USED_KEYS {
            uses.clear();
        }
        uses.insert(key.clone(), now);
        true
    }
}

impl Store {
    /// Creates a key, which a person makes on the dashboard or the administrator. Its secret is not stored.
    pub async fn create_key(&self, account: &AccountId, name: &str, maker: Option<&UserId>) -> Result<Key> {
        let key =
            Key { id: KeyId::new(), secret: format!("svc_{}", BASE32_NOPAD.encode(&random::<20>()).to_lowercase()) };
        sqlx::query(
            "INSERT INTO api_keys (id, account_id, name, secret_hash, created_at, user_id) VALUES ($1, $2, $3, $4, $5, $6)",
        )
        .bind(key.id.as_str())
        .bind(account.as_str())
        .bind(name)
        .bind(secret_hash(&key.secret))
        .bind(clock::now_ms())
        .bind(maker.map(UserId::as_str))
        .execute(&self.write)
        .await?;
        Ok(key)
    }

    /// The account of the key with this hash. None if the key is unknown or revoked.
    pub(super) async fn account_by_hash(&self, hash: &str) -> Result<Option<Account>> {
        let row = sqlx::query(
            "SELECT k.id, k.account_id, a.email, a.subscribed, a.customer, a.operator, COALESCE(u.role, 'owner') AS role
             FROM api_keys k JOIN accounts a ON a.id = k.account_id LEFT JOIN users u ON u.id = k.user_id
             WHERE k.secret_hash = $1 AND k.revoked_at IS NULL",
        )
        .bind(hash)
        .fetch_optional(&self.read)
        .await?;
        row.map(|row| {
            let (key, by_owner) = (row.try_get::<String, _>("id")?.into(), Role::of(&row)? == Role::Owner);
            Ok(Account { key: Some(key), by_owner, ..account(&row)? })
        })
        .transpose()
    }

    /// Writes down that a key was used now, at most once in a while and behind the request.
    pub fn note_key_use(&self, key: &KeyId) {
        let now = clock::now_ms();
        if !self.key_uses.is_due(key, now) {
            return;
        }
        let (write, key) = (self.write.clone(), key.clone());
        tokio::spawn(async move {
            let written = sqlx::query("UPDATE api_keys SET last_used_at = $1 WHERE id = $2")
                .bind(now)
                .bind(key.as_str())
                .execute(&write)
                .await;
            if let Err(error) = written {
                tracing::debug!(%error, "writing down the use of a key failed");
            }
        });
    }

    /// All keys or those of one account, oldest first.
    pub async fn keys(&self, email: Option<&str>) -> Result<Vec<KeyRow>> {
        let rows = sqlx::query(
            "SELECT k.id, a.email, k.name, k.created_at, k.last_used_at, k.revoked_at, u.id AS maker, u.email AS maker_email
             FROM api_keys k JOIN accounts a ON a.id = k.account_id LEFT JOIN users u ON u.id = k.user_id
             WHERE k.of_sign_in = 0 AND ($1 = '' OR a.email = $1) ORDER BY k.created_at, k.id",
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
                    maker: row
                        .try_get::<Option<String>, _>("maker")?
                        .map(UserId::from)
                        .zip(row.try_get("maker_email")?),
                    created_at: row.try_get("created_at")?,
                    last_used_at: row.try_get("last_used_at")?,
                    revoked_at: row.try_get("revoked_at")?,
                })
            })
            .collect()
    }

    /// Revokes a key of an account by its id; with a maker, a key that this person made. False if there is no such key or it is
    /// already revoked.
    pub async fn revoke_key_of(&self, account: &AccountId, id: &KeyId, maker: Option<&UserId>) -> Result<bool> {
        let mut tx = self.begin().await?;
        let done = sqlx::query(
            "UPDATE api_keys SET revoked_at = $1
             WHERE id = $2 AND account_id = $3 AND of_sign_in = 0 AND revoked_at IS NULL AND ($4 = '' OR user_id = $4)",
        )
        .bind(clock::now_ms())
        .bind(id.as_str())
        .bind(account.as_str())
        .bind(maker.map_or("", UserId::as_str))
        .execute(&mut *tx)
        .await?;
        key_cache::invalidate(&mut tx).await?;
        tx.commit().await?;
        Ok(done.rows_affected() > 0)
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
