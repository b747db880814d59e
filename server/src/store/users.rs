//! People who sign in to the dashboard, and the one-time links that set their passwords.

use sqlx::Row as _;

use super::team::account_with_address;
use super::{Letter, Result, Store, Tx, mail_outbox, sign_ins};
use crate::clock;
use crate::ids::{AccountId, UserId};

/// Who may create an account on the dashboard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignUp {
    Open,
    /// Open to the first person, who then operates the service: as long as there is no user, and the administrator has made no account
    /// but the first.
    First,
    Closed,
}

/// The condition of [`SignUp::First`].
const IS_FRESH: &str = "SELECT 1 AS one WHERE NOT EXISTS (SELECT 1 FROM users)
 AND NOT EXISTS (SELECT 1 FROM accounts WHERE operator = 0)";

/// The lock of the first sign-up: one node decides at a time.
const FIRST_LOCK: i64 = 0x4155_5250;

/// Stands for the password of somebody who has none. No password has this hash.
pub(super) const NO_PASSWORD: &str = "";

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

    /// Tells if somebody may create an account now.
    pub async fn may_sign_up(&self, rule: SignUp) -> Result<bool> {
        Ok(match rule {
            SignUp::Open => true,
            SignUp::First => sqlx::query(IS_FRESH).fetch_optional(&self.read).await?.is_some(),
            SignUp::Closed => false,
        })
    }

    /// Creates an account and its user. None if the address has an account or a user already, or the rule allows no more accounts.
    pub async fn sign_up(
        &self,
        rule: SignUp,
        email: &str,
        password_hash: &str,
        free_credit_cents: i64,
    ) -> Result<Option<UserId>> {
        let mut tx = self.begin().await?;
        let created = self.create_by_rule(&mut tx, rule, email, password_hash, free_credit_cents).await?;
        if created.is_some() {
            tx.commit().await?;
        }
        Ok(created)
    }

    /// Writes the letter that a sign-up sends: with a link that creates the account of the address, or the news that it has one.
    pub async fn request_sign_up(&self, email: &str, secret: &str, secret_hash: &str, expires_at: i64) -> Result<()> {
        let mut tx = self.begin().await?;
        let letter = match account_with_address(&mut tx, email).await? {
            Some(_) => Letter::Present,
            None => {
                sqlx::query("INSERT INTO sign_up_links (secret_hash, email, expires_at) VALUES ($1, $2, $3)")
                    .bind(secret_hash)
                    .bind(email)
                    .bind(expires_at)
                    .execute(&mut *tx)
                    .await?;
                Letter::SignUp { secret: secret.to_owned() }
            }
        };
        mail_outbox::enqueue(&mut tx, None, email, &letter, expires_at).await?;
        tx.commit().await
    }

    /// The address of a link that creates an account. None if it is unknown, used or expired.
    pub async fn sign_up_link(&self, secret_hash: &str) -> Result<Option<String>> {
        sqlx::query_scalar("SELECT email FROM sign_up_links WHERE secret_hash = $1 AND expires_at > $2")
            .bind(secret_hash)
            .bind(clock::now_ms())
            .fetch_optional(&self.read)
            .await
    }

    async fn create_by_rule(
        &self,
        tx: &mut Tx,
        rule: SignUp,
        email: &str,
        password_hash: &str,
        free_credit_cents: i64,
    ) -> Result<Option<UserId>> {
        match rule {
            SignUp::Open => create_user(tx, email, password_hash, free_credit_cents).await,
            SignUp::First => {
                self.lock(tx, FIRST_LOCK).await?;
                if sqlx::query(IS_FRESH).fetch_optional(&mut **tx).await?.is_none() {
                    return Ok(None);
                }
                let created = create_user(tx, email, password_hash, free_credit_cents).await?;
                sqlx::query("UPDATE accounts SET operator = 1 WHERE email = $1").bind(email).execute(&mut **tx).await?;
                Ok(created)
            }
            SignUp::Closed => Ok(None),
        }
    }

    /// Creates the account that a link is for, once. None if the link is unknown, used or expired, the address has an account by now, or
    /// the rule allows no more accounts.
    pub async fn confirm_sign_up(
        &self,
        rule: SignUp,
        secret_hash: &str,
        password_hash: &str,
        free_credit_cents: i64,
    ) -> Result<Option<UserId>> {
        let mut tx = self.begin().await?;
        let email: Option<String> =
            sqlx::query_scalar("SELECT email FROM sign_up_links WHERE secret_hash = $1 AND expires_at > $2")
                .bind(secret_hash)
                .bind(clock::now_ms())
                .fetch_optional(&mut *tx)
                .await?;
        let Some(email) = email else { return Ok(None) };
        let created = self.create_by_rule(&mut tx, rule, &email, password_hash, free_credit_cents).await?;
        sqlx::query("DELETE FROM sign_up_links WHERE email = $1").bind(&email).execute(&mut *tx).await?;
        if created.is_some() {
            tx.commit().await?;
        }
        Ok(created)
    }

    /// Writes a letter with a link that sets another password, if the address has a user.
    pub async fn request_reset(&self, email: &str, secret: &str, secret_hash: &str, expires_at: i64) -> Result<()> {
        let mut tx = self.begin().await?;
        let account: Option<String> = sqlx::query_scalar("SELECT account_id FROM users WHERE email = $1")
            .bind(email)
            .fetch_optional(&mut *tx)
            .await?;
        match account.map(AccountId::from) {
            Some(account) => {
                insert_password_link(&mut *tx, &account, email, secret_hash, expires_at).await?;
                let letter = Letter::Reset { secret: secret.to_owned() };
                mail_outbox::enqueue(&mut tx, Some(&account), email, &letter, expires_at).await?;
            }
            None => mail_outbox::enqueue_nothing(&mut tx).await?,
        }
        tx.commit().await
    }

    /// Keeps a one-time link, by the hash of its secret.
    pub async fn create_password_link(&self, link: &PasswordLink, secret_hash: &str, expires_at: i64) -> Result<()> {
        insert_password_link(&self.write, &link.account, &link.email, secret_hash, expires_at).await
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

/// Creates an account and its user with this transaction. None, and nothing to commit, if the address has an account or a user already.
pub(super) async fn create_user(
    tx: &mut Tx,
    email: &str,
    password_hash: &str,
    free_credit_cents: i64,
) -> Result<Option<UserId>> {
    let account = AccountId::new();
    let created = sqlx::query(
        "INSERT INTO accounts (id, email, created_at, free_credit_cents, credit_balance_cents)
         VALUES ($1, $2, $3, $4, $4) ON CONFLICT (email) DO NOTHING",
    )
    .bind(account.as_str())
    .bind(email)
    .bind(clock::now_ms())
    .bind(free_credit_cents)
    .execute(&mut **tx)
    .await?;
    if created.rows_affected() == 0 {
        return Ok(None);
    }
    insert_owner(tx, &account, email, password_hash).await
}

/// Creates the owner of an account with this transaction. None if the address has a user already.
pub(super) async fn insert_owner(
    tx: &mut Tx,
    account: &AccountId,
    email: &str,
    password_hash: &str,
) -> Result<Option<UserId>> {
    let user = UserId::new();
    let joined = sqlx::query(
        "INSERT INTO users (id, account_id, email, password_hash, created_at) VALUES ($1, $2, $3, $4, $5)
         ON CONFLICT (email) DO NOTHING",
    )
    .bind(user.as_str())
    .bind(account.as_str())
    .bind(email)
    .bind(password_hash)
    .bind(clock::now_ms())
    .execute(&mut **tx)
    .await?;
    Ok((joined.rows_affected() > 0).then_some(user))
}

async fn insert_password_link<'e, E: sqlx::Executor<'e, Database = sqlx::Any>>(
    executor: E,
    account: &AccountId,
    email: &str,
    secret_hash: &str,
    expires_at: i64,
) -> Result<()> {
    sqlx::query("INSERT INTO password_links (secret_hash, account_id, email, expires_at) VALUES ($1, $2, $3, $4)")
        .bind(secret_hash)
        .bind(account.as_str())
        .bind(email)
        .bind(expires_at)
        .execute(executor)
        .await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Durability;

    async fn open() -> (tempfile::TempDir, Store) {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&Store::url_in(folder.path()), Durability::Crash).await.unwrap();
        (folder, store)
    }

    #[tokio::test]
    async fn the_first_sign_up_is_the_last_and_operates_the_service() {
        let (_folder, store) = open().await;
        assert!(store.account_of("admin@localhost", 100).await.unwrap().is_first);
        assert!(store.may_sign_up(SignUp::First).await.unwrap());
        let taken = store.sign_up(SignUp::First, "admin@localhost", "hash", 100).await.unwrap();
        assert_eq!(taken, None, "the address has an account");
        assert!(store.sign_up(SignUp::First, "a@example.com", "hash", 100).await.unwrap().is_some());
        assert!(store.account_named("a@example.com").await.unwrap().unwrap().is_first);
        assert!(!store.may_sign_up(SignUp::First).await.unwrap());
        assert_eq!(store.sign_up(SignUp::First, "b@example.com", "hash", 100).await.unwrap(), None);
        assert!(store.account_named("b@example.com").await.unwrap().is_none());
        assert!(store.sign_up(SignUp::Open, "b@example.com", "hash", 100).await.unwrap().is_some());
        assert!(!store.account_named("b@example.com").await.unwrap().unwrap().is_first);
    }

    #[tokio::test]
    async fn accounts_of_the_administrator_close_the_first_sign_up() {
        let (_folder, store) = open().await;
        store.account_of("admin@localhost", 100).await.unwrap();
        assert!(!store.account_of("a@example.com", 100).await.unwrap().is_first);
        assert!(!store.may_sign_up(SignUp::First).await.unwrap());
        assert_eq!(store.sign_up(SignUp::First, "b@example.com", "hash", 100).await.unwrap(), None);
        assert!(store.may_sign_up(SignUp::Open).await.unwrap() && !store.may_sign_up(SignUp::Closed).await.unwrap());
    }

    #[tokio::test]
    async fn a_link_creates_no_account_once_somebody_else_was_the_first() {
        let (_folder, store) = open().await;
        for (email, hash) in [("a@example.com", "one"), ("b@example.com", "two")] {
            store.request_sign_up(email, "secret", hash, clock::now_ms() + 60_000).await.unwrap();
        }
        let confirm = async |link| store.confirm_sign_up(SignUp::First, link, "hash", 100).await.unwrap();
        assert!(confirm("two").await.is_some());
        assert_eq!(confirm("one").await, None);
        assert!(store.account_named("b@example.com").await.unwrap().unwrap().is_first);
        assert!(store.account_named("a@example.com").await.unwrap().is_none());
    }
}
