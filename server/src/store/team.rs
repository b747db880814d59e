//! The people of an account: its owner, members and those who are invited.

use sqlx::Row as _;
use sqlx::any::AnyRow;

use super::{Dialect, Letter, Result, Store, Tx, mail_outbox, sign_ins};
use crate::clock;
use crate::ids::{AccountId, InvitationId, UserId};

/// People of an account, its owner among them.
pub const SEATS: i64 = 5;

/// Lifetime of an invitation.
pub const INVITATION_MS: i64 = 7 * 24 * 3_600_000;

/// Invitations of an account that may be open at a time.
const MAX_INVITATIONS: i64 = 20;

/// The rights of a person.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Everything; billing and the team are the owner's alone.
    Owner,
    Member,
}

impl Role {
    pub(super) fn of(row: &AnyRow) -> Result<Self> {
        // A word of a later version gives no right that it may not mean.
        Ok(if row.try_get::<String, _>("role")? == "owner" { Self::Owner } else { Self::Member })
    }
}

/// A person of an account.
#[derive(Clone, Debug)]
pub struct Person {
    pub id: UserId,
    pub email: String,
    pub role: Role,
    pub joined_at: i64,
}

/// An invitation that is open.
#[derive(Clone, Debug)]
pub struct Invitation {
    pub id: InvitationId,
    /// The invited address.
    pub email: String,
    pub expires_at: i64,
}

/// An invitation as its link shows it.
#[derive(Clone, Debug)]
pub struct InvitedTo {
    pub email: String,
    /// The address of the account.
    pub owner: String,
}

/// The result of an invitation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Invited {
    Yes,
    /// The address belongs to this account.
    Present,
    /// The address belongs to another account.
    Taken,
    /// Too many invitations are open.
    TooMany,
}

/// The result of accepting an invitation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Joined {
    Yes(UserId),
    /// The link is unknown, used, withdrawn or expired.
    Gone,
    /// The address has come to belong to an account meanwhile.
    Taken,
    /// All seats are taken.
    Full,
}

impl Store {
    /// The people of an account, the owner first.
    pub async fn people(&self, account: &AccountId) -> Result<Vec<Person>> {
        let rows = sqlx::query(
            "SELECT id, email, role, created_at FROM users WHERE account_id = $1
             ORDER BY CASE WHEN role = 'owner' THEN 0 ELSE 1 END, created_at, id",
        )
        .bind(account.as_str())
        .fetch_all(&self.read)
        .await?;
        rows.iter()
            .map(|row| {
                Ok(Person {
                    id: row.try_get::<String, _>("id")?.into(),
                    email: row.try_get("email")?,
                    role: Role::of(row)?,
                    joined_at: row.try_get("created_at")?,
                })
            })
            .collect()
    }

    /// The open invitations of an account, newest first.
    pub async fn invitations(&self, account: &AccountId) -> Result<Vec<Invitation>> {
        let rows = sqlx::query(
            "SELECT id, email, expires_at FROM invitations WHERE account_id = $1 AND expires_at > $2
             ORDER BY created_at DESC, id DESC",
        )
        .bind(account.as_str())
        .bind(clock::now_ms())
        .fetch_all(&self.read)
        .await?;
        rows.iter()
            .map(|row| {
                Ok(Invitation {
                    id: row.try_get::<String, _>("id")?.into(),
                    email: row.try_get("email")?,
                    expires_at: row.try_get("expires_at")?,
                })
            })
            .collect()
    }

    /// Invites an address to an account, by a link whose secret has this hash, and by a letter. An earlier link for the address is
    /// void then.
    pub async fn invite(
        &self,
        account: &AccountId,
        email: &str,
        secret_hash: &str,
        letter: Option<&Letter>,
    ) -> Result<Invited> {
        let now = clock::now_ms();
        let mut tx = self.begin().await?;
        lock_account(self.dialect, &mut tx, account).await?;
        if let Some(of) = account_with_address(&mut tx, email).await? {
            return Ok(if of == *account { Invited::Present } else { Invited::Taken });
        }
        sqlx::query("DELETE FROM invitations WHERE account_id = $1 AND (email = $2 OR expires_at <= $3)")
            .bind(account.as_str())
            .bind(email)
            .bind(now)
            .execute(&mut *tx)
            .await?;
        let open: i64 = sqlx::query_scalar("SELECT COUNT(*) FROM invitations WHERE account_id = $1")
            .bind(account.as_str())
            .fetch_one(&mut *tx)
            .await?;
        if open >= MAX_INVITATIONS {
            return Ok(Invited::TooMany);
        }
        sqlx::query(
            "INSERT INTO invitations (id, account_id, email, secret_hash, created_at, expires_at)
             VALUES ($1, $2, $3, $4, $5, $6)",
        )
        .bind(InvitationId::new().as_str())
        .bind(account.as_str())
        .bind(email)
        .bind(secret_hash)
        .bind(now)
        .bind(now + INVITATION_MS)
        .execute(&mut *tx)
        .await?;
        if let Some(letter) = letter {
            mail_outbox::enqueue(&mut tx, Some(account), email, letter, now + INVITATION_MS).await?;
        }
        tx.commit().await?;
        Ok(Invited::Yes)
    }

    /// Withdraws an invitation. False if the account has none with this id.
    pub async fn withdraw_invitation(&self, account: &AccountId, id: &InvitationId) -> Result<bool> {
        let done = sqlx::query("DELETE FROM invitations WHERE id = $1 AND account_id = $2")
            .bind(id.as_str())
            .bind(account.as_str())
            .execute(&self.write)
            .await?;
        Ok(done.rows_affected() > 0)
    }

    /// The open invitation whose link has this secret.
    pub async fn invitation(&self, secret_hash: &str) -> Result<Option<InvitedTo>> {
        let row = sqlx::query(
            "SELECT i.email, a.email AS owner FROM invitations i JOIN accounts a ON a.id = i.account_id
             WHERE i.secret_hash = $1 AND i.expires_at > $2",
        )
        .bind(secret_hash)
        .bind(clock::now_ms())
        .fetch_optional(&self.read)
        .await?;
        row.map(|row| Ok(InvitedTo { email: row.try_get("email")?, owner: row.try_get("owner")? })).transpose()
    }

    /// Accepts an invitation: its address becomes a member with this password. It stays open where that is not possible.
    pub async fn join(&self, secret_hash: &str, password_hash: &str) -> Result<Joined> {
        let mut tx = self.begin().await?;
        let joined = join(self.dialect, &mut tx, secret_hash, password_hash).await?;
        if matches!(joined, Joined::Yes(_)) {
            tx.commit().await?;
        }
        Ok(joined)
    }

    /// Removes a member: sign-ins, live sessions, links and the keys that the person made end with it. False if the account has no
    /// such member; its owner is none.
    pub async fn remove_member(&self, account: &AccountId, user: &UserId) -> Result<bool> {
        let mut tx = self.begin().await?;
        // A key that the member is making is there before the lock, or is refused after it.
        let sql = match self.dialect {
            Dialect::Sqlite => "SELECT email FROM users WHERE id = $1 AND account_id = $2 AND role = 'member'",
            Dialect::Postgres => {
                "SELECT email FROM users WHERE id = $1 AND account_id = $2 AND role = 'member' FOR UPDATE"
            }
        };
        let email: Option<String> =
            sqlx::query_scalar(sql).bind(user.as_str()).bind(account.as_str()).fetch_optional(&mut *tx).await?;
        let Some(email) = email else { return Ok(false) };
        sqlx::query("UPDATE api_keys SET revoked_at = $1 WHERE user_id = $2 AND revoked_at IS NULL")
            .bind(clock::now_ms())
            .bind(user.as_str())
            .execute(&mut *tx)
            .await?;
        sign_ins::end_all(&mut tx, user).await?;
        sqlx::query("DELETE FROM password_links WHERE email = $1").bind(&email).execute(&mut *tx).await?;
        sqlx::query("DELETE FROM users WHERE id = $1").bind(user.as_str()).execute(&mut *tx).await?;
        tx.commit().await?;
        Ok(true)
    }
}

/// Lets one transaction at a time change the team of an account.
async fn lock_account(dialect: Dialect, tx: &mut Tx, account: &AccountId) -> Result<()> {
    if dialect == Dialect::Postgres {
        sqlx::query("SELECT id FROM accounts WHERE id = $1 FOR UPDATE")
            .bind(account.as_str())
            .execute(&mut **tx)
            .await?;
    }
    Ok(())
}

/// The account to which an address belongs.
pub(super) async fn account_with_address(tx: &mut Tx, email: &str) -> Result<Option<AccountId>> {
    let found: Option<String> = sqlx::query_scalar(
        "SELECT account_id FROM users WHERE email = $1 UNION SELECT id AS account_id FROM accounts WHERE email = $1",
    )
    .bind(email)
    .fetch_optional(&mut **tx)
    .await?;
    Ok(found.map(AccountId::from))
}

/// Accepts an invitation with this transaction, which is to be committed only if somebody has joined.
pub(super) async fn join(dialect: Dialect, tx: &mut Tx, secret_hash: &str, password_hash: &str) -> Result<Joined> {
    let now = clock::now_ms();
    let account: Option<String> = sqlx::query_scalar("SELECT account_id FROM invitations WHERE secret_hash = $1")
        .bind(secret_hash)
        .fetch_optional(&mut **tx)
        .await?;
    let Some(account) = account.map(AccountId::from) else { return Ok(Joined::Gone) };
    // Two invitations may be accepted at the same time while one seat is free.
    lock_account(dialect, tx, &account).await?;
    let email: Option<String> =
        sqlx::query_scalar("DELETE FROM invitations WHERE secret_hash = $1 AND expires_at > $2 RETURNING email")
            .bind(secret_hash)
            .bind(now)
            .fetch_optional(&mut **tx)
            .await?;
    let Some(email) = email else { return Ok(Joined::Gone) };
    if account_with_address(tx, &email).await?.is_some() {
        return Ok(Joined::Taken);
    }
    let taken: i64 = sqlx::query_scalar("SELECT COUNT(*) FROM users WHERE account_id = $1")
        .bind(account.as_str())
        .fetch_one(&mut **tx)
        .await?;
    if taken >= SEATS {
        return Ok(Joined::Full);
    }
    let user = UserId::new();
    let joined = sqlx::query(
        "INSERT INTO users (id, account_id, email, password_hash, created_at, role) VALUES ($1, $2, $3, $4, $5, 'member')
         ON CONFLICT (email) DO NOTHING",
    )
    .bind(user.as_str())
    .bind(account.as_str())
    .bind(&email)
    .bind(password_hash)
    .bind(now)
    .execute(&mut **tx)
    .await?;
    if joined.rows_affected() == 0 {
        return Ok(Joined::Taken);
    }
    Ok(Joined::Yes(user))
}
