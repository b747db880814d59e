//! Sign-ins to the dashboard, by the hash of the secret in the cookie.

use sqlx::Row as _;

use super::accounts::account;
use super::{Account, Result, Role, Store, Tx, key_cache};
use crate::clock;
use crate::ids::{KeyId, UserId};

/// The longest time that a sign-in lasts.
pub(super) const SIGN_IN_MS: i64 = 14 * 24 * 3_600_000;

/// A valid sign-in.
#[derive(Clone, Debug)]
pub struct SignIn {
    pub user: UserId,
    pub email: String,
    /// The user's account. Its key is that of the sign-in, which ends with it.
    pub account: Account,
}

impl Store {
    /// Begins a sign-in.
    pub async fn begin_sign_in(&self, user: &UserId, secret_hash: &str) -> Result<()> {
        let (key, now) = (KeyId::new(), clock::now_ms());
        let mut tx = self.begin().await?;
        sqlx::query(
            "INSERT INTO api_keys (id, account_id, name, secret_hash, created_at, of_sign_in)
             SELECT $1, account_id, 'dashboard', $2, $3, 1 FROM users WHERE id = $4",
        )
        .bind(key.as_str())
        // No secret has this hash.
        .bind(key.as_str())
        .bind(now)
        .bind(user.as_str())
        .execute(&mut *tx)
        .await?;
        sqlx::query(
            "INSERT INTO sign_ins (secret_hash, user_id, key_id, created_at, expires_at) VALUES ($1, $2, $3, $4, $5)",
        )
        .bind(secret_hash)
        .bind(user.as_str())
        .bind(key.as_str())
        .bind(now)
        .bind(now + SIGN_IN_MS)
        .execute(&mut *tx)
        .await?;
        tx.commit().await
    }

    /// The sign-in with this hash. None if it is unknown, expired or ended.
    pub async fn sign_in(&self, secret_hash: &str) -> Result<Option<SignIn>> {
        let row = sqlx::query(
            "SELECT s.user_id, s.key_id, u.email AS user_email, u.role, u.account_id, a.email, a.subscribed, a.customer,
                    a.operator
             FROM sign_ins s JOIN users u ON u.id = s.user_id JOIN accounts a ON a.id = u.account_id
             WHERE s.secret_hash = $1 AND s.expires_at > $2",
        )
        .bind(secret_hash)
        .bind(clock::now_ms())
        .fetch_optional(&self.read)
        .await?;
        row.map(|row| {
            let (key, by_owner) = (row.try_get::<String, _>("key_id")?.into(), Role::of(&row)? == Role::Owner);
            Ok(SignIn {
                user: row.try_get::<String, _>("user_id")?.into(),
                email: row.try_get("user_email")?,
                account: Account { key: Some(key), by_owner, ..account(&row)? },
            })
        })
        .transpose()
    }

    /// Ends a sign-in, with its live sessions.
    pub async fn end_sign_in(&self, secret_hash: &str) -> Result<()> {
        let mut tx = self.begin().await?;
        sqlx::query(
            "UPDATE api_keys SET revoked_at = $1 WHERE id IN (SELECT key_id FROM sign_ins WHERE secret_hash = $2)",
        )
        .bind(clock::now_ms())
        .bind(secret_hash)
        .execute(&mut *tx)
        .await?;
        sqlx::query("DELETE FROM sign_ins WHERE secret_hash = $1").bind(secret_hash).execute(&mut *tx).await?;
        key_cache::invalidate(&mut tx).await?;
        tx.commit().await
    }

    /// Ends all sign-ins of a user, with their live sessions.
    pub async fn end_sign_ins(&self, user: &UserId) -> Result<()> {
        let mut tx = self.begin().await?;
        end_all(&mut tx, user).await?;
        tx.commit().await
    }
}

/// Ends all sign-ins of a user with this transaction.
pub(super) async fn end_all(tx: &mut Tx, user: &UserId) -> Result<()> {
    sqlx::query("UPDATE api_keys SET revoked_at = $1 WHERE id IN (SELECT key_id FROM sign_ins WHERE user_id = $2)")
        .bind(clock::now_ms())
        .bind(user.as_str())
        .execute(&mut **tx)
        .await?;
    sqlx::query("DELETE FROM sign_ins WHERE user_id = $1").bind(user.as_str()).execute(&mut **tx).await?;
    key_cache::invalidate(tx).await
}
