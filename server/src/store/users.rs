//! People who sign in to the dashboard, and the one-time links that set their passwords.

use sqlx::Row as _;

use super::{Result, Store, sign_ins};
use crate::clock;
use crate::ids::{AccountId, UserId};

/// A person who signs in.
#[derive(Clone, Debug)]
pub struct User {
    pub id: UserId,
    pub password_hash: String,
}

/// A one-time link that sets a password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PasswordLink {
    pub account: AccountId,
    pub email: String,
}

impl Store {
    /// The user of an email address.
    pub async fn user(&self, email: &str) -> Result<Option<User>> {
        let row = sqlx::query("SELECT id, password_hash FROM users WHERE email = $1")
            .bind(email)
            .fetch_optional(&self.read)
            .await?;
        row.map(|row| {
            Ok(User { id: row.try_get::<String, _>("id")?.into(), password_hash: row.try_get("password_hash")? })
        })
        .transpose()
    }

    /// True if somebody can sign in to an account.
    pub async fn has_user(&self, account: &AccountId) -> Result<bool> {
        let found: Option<i64> = sqlx::query_scalar("SELECT 1 AS one FROM users WHERE account_id = $1 LIMIT 1")
            .bind(account.as_str())
            .fetch_optional(&self.read)
            .await?;
        Ok(found.is_some())
    }

    /// Creates an account and its user. None if the address has an account or a user already.
    pub async fn sign_up(&self, email: &str, password_hash: &str, free_credit_cents: i64) -> Result<Option<UserId>> {
        let (account, user, now) = (AccountId::new(), UserId::new(), clock::now_ms());
        let mut tx = self.begin().await?;
        let created = sqlx::query(
            "INSERT INTO accounts (id, email, created_at, free_credit_cents, credit_balance_cents)
             VALUES ($1, $2, $3, $4, $4) ON CONFLICT (email) DO NOTHING",
        )
        .bind(account.as_str())
        .bind(email)
        .bind(now)
        .bind(free_credit_cents)
        .execute(&mut *tx)
        .await?;
        if created.rows_affected() == 0 {
            return Ok(None);
        }
        let joined = sqlx::query(
            "INSERT INTO users (id, account_id, email, password_hash, created_at) VALUES ($1, $2, $3, $4, $5)
             ON CONFLICT (email) DO NOTHING",
        )
        .bind(user.as_str())
        .bind(account.as_str())
        .bind(email)
        .bind(password_hash)
        .bind(now)
        .execute(&mut *tx)
        .await?;
        if joined.rows_affected() == 0 {
            return Ok(None);
        }
        tx.commit().await?;
        Ok(Some(user))
    }

    /// Keeps a one-time link, by the hash of its secret.
    pub async fn create_password_link(&self, link: &PasswordLink, secret_hash: &str, expires_at: i64) -> Result<()> {
        sqlx::query("INSERT INTO password_links (secret_hash, account_id, email, expires_at) VALUES ($1, $2, $3, $4)")
            .bind(secret_hash)
            .bind(link.account.as_str())
            .bind(&link.email)
            .bind(expires_at)
            .execute(&self.write)
            .await?;
        Ok(())
    }

    /// The link with this hash. None if it is unknown, used or expired.
    pub async fn password_link(&self, secret_hash: &str) -> Result<Option<PasswordLink>> {
        let row =
            sqlx::query("SELECT account_id, email FROM password_links WHERE secret_hash = $1 AND expires_at > $2")
                .bind(secret_hash)
                .bind(clock::now_ms())
                .fetch_optional(&self.read)
                .await?;
        row.map(|row| {
            Ok(PasswordLink { account: row.try_get::<String, _>("account_id")?.into(), email: row.try_get("email")? })
        })
        .transpose()
    }

    /// Sets the password that a link is for, once: creates the user if there is none, ends all its sign-ins and voids its
    /// other links. None if the link is unknown, used or expired.
    pub async fn set_password(&self, secret_hash: &str, password_hash: &str) -> Result<Option<UserId>> {
        let mut tx = self.begin().await?;
        let row = sqlx::query(
            "DELETE FROM password_links WHERE secret_hash = $1 AND expires_at > $2 RETURNING account_id, email",
        )
        .bind(secret_hash)
        .bind(clock::now_ms())
        .fetch_optional(&mut *tx)
        .await?;
        let Some(row) = row else { return Ok(None) };
        let (account, email): (String, String) = (row.try_get("account_id")?, row.try_get("email")?);
        // The link of an account's own address makes the owner. One of a member is for a person who is there.
        let row = sqlx::query(
            "INSERT INTO users (id, account_id, email, password_hash, created_at)
             SELECT $1, id, $3, $4, $5 FROM accounts
             WHERE id = $2 AND (email = $3 OR EXISTS (SELECT 1 FROM users WHERE email = $3))
             ON CONFLICT (email) DO UPDATE SET password_hash = excluded.password_hash RETURNING id",
        )
        .bind(UserId::new().as_str())
        .bind(&account)
        .bind(&email)
        .bind(password_hash)
        .bind(clock::now_ms())
        .fetch_optional(&mut *tx)
        .await?;
        let Some(row) = row else { return Ok(None) };
        let user = UserId::from(row.try_get::<String, _>("id")?);
        sqlx::query("DELETE FROM password_links WHERE email = $1").bind(&email).execute(&mut *tx).await?;
        sign_ins::end_all(&mut tx, &user).await?;
        tx.commit().await?;
        Ok(Some(user))
    }
}
